package check

import (
	"fmt"
	"time"

	"writ/sal/catalog"
	"writ/scripts"
	"writ/scripts/diagnostic"
	"writ/scripts/scripttest"
)

// Report is the result of a check. It is derived from the text alone, without running it.
type Report struct {
	Diagnostics []diagnostic.Diagnostic `json:"diagnostics,omitempty"` // by file and place, the first 100
	More        int                     `json:"more,omitempty"`        // errors beyond these
	Params      scripts.Params          `json:"params,omitempty"`
	// Every operation in the text, sorted: the `allow` list of the script.
	Operations  []string `json:"operations,omitempty"`
	Destructive bool     `json:"destructive,omitempty"` // one of the operations deletes or overwrites data
	// Targets are the resources of these operations as far as the text names them, sorted: "volume/web-0", or
	// "volume/web-*" if the rest of the name is known only at run time. MoreTargets reports further targets that the text
	// does not name.
	Targets     []string  `json:"targets,omitempty"`
	MoreTargets bool      `json:"more_targets,omitempty"`
	Secrets     []string  `json:"secrets,omitempty"`  // the names of all literal secrets, sorted
	Images      []string  `json:"images,omitempty"`   // literal references to images at registries, sorted
	Timeouts    []Timeout `json:"timeouts,omitempty"` // of calls, where they are literals
	// LeastCalls is the number of calls that every run makes at least, as far as the text shows: calls in functions, and
	// in loops without a literal number of rounds, do not count.
	LeastCalls int `json:"least_calls,omitempty"`

	Modules []string          `json:"modules,omitempty"` // modules of the bundle that the script needs, sorted
	Tests   []scripttest.Test `json:"tests,omitempty"`   // of a test file, in its order
}

// Timeout is a literal timeout option of a call.
type Timeout struct {
	Operation string `json:"operation"`
	Position  string `json:"position"` // of the options: "web.tengo:14:11"
	Millis    int64  `json:"milliseconds"`
}

// String returns the call with its timeout: "machine.create at web.tengo:14:11 has the timeout 2h".
func (t Timeout) String() string {
	return fmt.Sprintf("%s at %s has the timeout %s", t.Operation, t.Position, catalog.ShortDuration(t.Duration()))
}

// Duration returns the timeout as a duration.
func (t Timeout) Duration() time.Duration { return time.Duration(t.Millis) * time.Millisecond }

// OK reports whether the script has no errors.
func (r Report) OK() bool { return r.Errors() == 0 }

// Errors counts the errors of the script.
func (r Report) Errors() int { return r.More + diagnostic.Errors(r.Diagnostics) }

// Err returns nil if the script is OK. Otherwise it returns SCRIPT_INVALID with the first error and the number of
// further errors.
func (r Report) Err() error { return diagnostic.Invalid(r.Diagnostics, r.More) }

// String formats the diagnostics for a terminal. Diagnostics that differ only in their places are shown once.
func (r Report) String() string { return diagnostic.Text(r.Diagnostics, r.More) }

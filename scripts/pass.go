package scripts

import (
	"context"
	"fmt"
	"slices"

	"writ"
	"writ/sal/catalog"
)

// Source is one file of a bundle.
type Source struct {
	Name string `json:"name"` // "web.tengo"; for a module "lib/fleet@1"
	Text []byte `json:"text"`
}

// PrunePosition is the position of a call that deletes a resource of Inputs.Prune.
const PrunePosition = "prune"

// Bundle is a script with every module that it imports.
type Bundle struct {
	Main    Source   `json:"main"`
	Modules []Source `json:"modules,omitempty"`

	digest writ.Digest // set by WithDigest, else zero
}

// Inputs holds all inputs of a pass other than bundle and journal.
type Inputs struct {
	Params         map[string]any    `json:"params,omitempty"` // all parameters, including defaults
	Run            writ.RunID        `json:"run"`
	Project        string            `json:"project"` // name
	Datacenter     writ.DatacenterID `json:"datacenter"`
	DatacenterName string            `json:"datacenter_name"`
	Allow          []string          `json:"allow,omitempty"` // the operations that the signed header allows
	// The secrets that the signed header names, "db-password@3"; each name once.
	Secrets []string `json:"secrets,omitempty"`
	// The images at registries that the signed header names, as full references with digests; each tag once.
	Images []string `json:"images,omitempty"`
	// Prune lists resources, such as "volume/web-0". When all calls of the script have succeeded, the run deletes every
	// listed resource that the script does not name.
	Prune    []string `json:"prune,omitempty"`
	MaxCalls int      `json:"max_calls"`
	Logged   int      `json:"-"` // the number of log lines from earlier passes, which this pass omits
	Past     `json:"-"`
}

// Past describes the journal of a pass. The zero Past is correct for each whole journal.
type Past struct {
	// Ended is the number of first entries of the journal whose calls have ended. They are in order, and do not change
	// between the passes of a run with equal Resumes.
	Ended   int
	Resumes int
	// First is the number of first entries that the journal lacks, because the caller does not hold them in memory. They
	// have ended. Earlier returns them.
	First   int
	Earlier func(ctx context.Context) ([]Entry, error)
}

// WithEarlier returns the inputs and the journal of a pass with the first entries of the journal.
func (in *Inputs) WithEarlier(ctx context.Context, journal []Entry) (*Inputs, []Entry, error) {
	if in.First == 0 {
		return in, journal, nil
	}
	earlier, err := in.Earlier(ctx)
	if err != nil {
		return nil, nil, err
	}
	if len(earlier) != in.First {
		return nil, nil, fmt.Errorf("run %s has %d calls before its open ones, want %d", in.Run, len(earlier), in.First)
	}
	whole := *in
	whole.First, whole.Earlier = 0, nil
	return &whole, append(slices.Clip(earlier), journal...), nil
}

// Permit checks a new call against the signed header.
func (in *Inputs) Permit(op *catalog.Operation, seq int) error {
	if !slices.Contains(in.Allow, op.Name()) {
		return writ.Errorf(writ.CodeOperationNotAllowed, "the signed header does not allow %s", op.Name()).
			WithHint("sign the script again with %s in its allow line", op.Name())
	}
	if seq > min(in.MaxCalls, MaxCalls) {
		return writ.Errorf(writ.CodeScriptLimit, "the signed header allows %d calls", in.MaxCalls).
			WithHint("sign the script again with a higher --max-calls, at most %d", MaxCalls)
	}
	return nil
}

// EntryState is the state of a journaled call.
type EntryState string

// The states of entries.
const (
	EntryOpen      EntryState = "open"
	EntrySucceeded EntryState = "succeeded"
	EntryFailed    EntryState = "failed" // finally: no attempt is left
)

// Entry is a journaled call in the form that a pass reads. For every pass, package evaluator sends the entries to a
// child process, which returns an Outcome with its NewCalls. All three types are encoded as CBOR lists of their fields.
type Entry struct {
	_      struct{}       `cbor:",toarray"`
	Seq    int            `json:"seq"`
	Hash   writ.Digest    `json:"hash"` // SHA-256 of CBOR [operation, name, spec, options]
	State  EntryState     `json:"state"`
	Values map[string]any `json:"values,omitempty"` // set if it succeeded
	Error  *writ.Error    `json:"error,omitempty"`  // set if it failed
}

// NewCall is a call of a pass that is not in the journal yet.
type NewCall struct {
	_         struct{}         `cbor:",toarray"`
	Seq       int              `json:"seq"`
	Hash      writ.Digest      `json:"hash"`
	Operation string           `json:"operation"`
	Name      string           `json:"name,omitempty"`
	Args      map[string]any   `json:"args,omitempty"` // including defaults; a handle is {"ref": seq}
	Options   writ.CallOptions `json:"options"`
	After     []int            `json:"after,omitempty"` // sequence numbers of the handles in the arguments, ascending
	Position  string           `json:"position"`        // "web.tengo:14:2"
	Read      string           `json:"read,omitempty"`  // where the script last read a result before the call, or ""
}

// Status is the reason for the end of a pass.
type Status string

// The values of Status.
const (
	Waiting   Status = "waiting"   // the script read a field of a call without result
	Completed Status = "completed" // the script reached its end; its calls may still be open
	Failed    Status = "failed"
)

// Outcome is the result of a pass. It is a function of bundle, inputs and journal alone.
type Outcome struct {
	_       struct{}       `cbor:",toarray"`
	Status  Status         `json:"status"`
	Calls   []NewCall      `json:"calls,omitempty"`
	Logs    []string       `json:"logs,omitempty"` // the log lines of the run after the first Inputs.Logged
	Waiting []int          `json:"waiting,omitempty"`
	Handled []int          `json:"handled,omitempty"` // failed calls whose .err was read, ascending
	Output  map[string]any `json:"output,omitempty"`
	Failure *writ.Failure  `json:"failure,omitempty"`
}

// Evaluator runs passes, in this process or safely in child processes. Its methods are safe for concurrent use. The
// journal of a pass begins after its first inputs.First entries. An error means that there was no pass; it is
// CodeEvaluatorCrashed if the process died. A failure of the script itself is an Outcome. Plan returns the result of
// interpreter.PlanOf, which runs in the same process as a pass.
type Evaluator interface {
	Pass(ctx context.Context, bundle Bundle, inputs Inputs, journal []Entry) (Outcome, error)
	Plan(ctx context.Context, bundle Bundle, inputs Inputs) (Plan, error)
}

// Engine names the interpreter and the semantics of operations. Both are part of every signature, because a journal
// must replay under the engine that wrote it.
const Engine = "tengo/2.17.0 api/1"

// Engines lists the engines that this program can run. New signatures name the first engine.
func Engines() []string { return []string{Engine} }

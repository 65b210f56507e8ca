// Package progress defines the reports of a starting machine to its boot server: one report per stage. Reports are not
// authenticated, because any machine on that network can send them. Both sides therefore limit and sanitise them. The
// package does not depend on the transport of reports.
package progress

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
	"unicode"

	"writ"
	"writ/internal/clip"
	"writ/internal/hidden"
	"writ/internal/lazyregexp"
)

// Limits of a report.
const (
	MaxBytes = 4 << 10 // JSON size
	MaxText  = 300     // bytes per text
)

// Path is the URL path for reports. The hardware address of the machine's network card follows, in the form of Name.
const Path = "/boot/report/"

// Stages with a meaning for boot servers. Other stages are only displayed.
const (
	StageStart   = "start"   // the kernel runs
	StagePanic   = "panic"   // the kernel panicked at the end of the previous run
	StageData    = "data"    // the disk with the node's data
	StageConfig  = "config"  // settings
	StageNetwork = "network" // a card has an address
	StageClock   = "clock"   // the clock is correct
	StageService = "service" // a program of the image that the runner needs
	StageRunner  = "runner"  // the runner has started and must reach its supervisor
	StageWaits   = "waits"   // the node waits for approval
	StageApprove = "approve" // the datacenter has decided about the node
	StageJoined  = "joined"  // the node serves
	StageOff     = "off"     // the machine turns off or restarts

	StageWatchdog = "watchdog" // the watchdog that restarts a hung machine
)

// Report is the state of a stage.
type Report struct {
	Stage  string `json:"stage"`
	Text   string `json:"text,omitempty"`
	Failed bool   `json:"failed,omitempty"` // whether a part of the stage failed, for the reason in Text
	Next   string `json:"next,omitempty"`   // remedy for the failure
	Held   bool   `json:"held,omitempty"`   // whether the stage failed twice in the same way, or needs a person
	Node   string `json:"node,omitempty"`   // the machine's name as a node
	// Settings is the digest that SettingsOf returns for the command line. The boot server compares it with the settings
	// in its script.
	Settings string `json:"settings,omitempty"`
}

var (
	stagePattern    = lazyregexp.New(`^[a-z][a-z0-9-]{0,15}$`)
	settingsPattern = lazyregexp.New(`^[0-9a-f]{16}$`)
)

// SettingsOf returns a short digest of the settings on a command line, without the token.
func SettingsOf(cmdline string) string {
	sum := sha256.New()
	for word := range strings.FieldsSeq(cmdline) {
		if strings.HasPrefix(word, "writ.") && !strings.HasPrefix(word, "writ.join=") {
			sum.Write([]byte(word + "\n"))
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// Valid reports whether the fields are well-formed. If a report is valid, so is the result of Clean.
func (r Report) Valid() bool {
	return stagePattern.MatchString(r.Stage) && (r.Node == "" || writ.ValidName(r.Node)) &&
		(r.Settings == "" || settingsPattern.MatchString(r.Settings))
}

// Clean returns the report with limited and printable texts.
func (r Report) Clean() Report {
	r.Text, r.Next = Text(r.Text, MaxText), Text(r.Next, MaxText)
	return r
}

// Text returns a text as one line of at most limit bytes, without control characters and characters that mislead a
// reader.
func Text(text string, limit int) string {
	if len(text) > 4*limit { // avoid work for the part that is cut off; escapes never make a text shorter
		text = text[:4*limit]
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	text = strings.TrimSpace(hidden.Escape(text))
	if len(text) <= limit {
		return text
	}
	return clip.Prefix(text, limit-len("…")) + "…"
}

// MAC returns a hardware address in the canonical form, for example 52:54:00:77:00:50. It returns "" if the text is not
// a valid unicast address.
func MAC(text string) string {
	address, err := net.ParseMAC(text)
	if err != nil || len(address) != 6 || address[0]&1 != 0 || strings.Trim(address.String(), "0:") == "" {
		return ""
	}
	return address.String()
}

// Name returns a hardware address in the form for URLs.
func Name(mac string) string { return strings.ReplaceAll(mac, ":", "-") }

// StageModules is the stage that loads the drivers of devices.
const StageModules = "modules"

// Limit is the limit of a wait. The waiting code and the page use the same value, so they cannot differ.
type Limit struct {
	Most time.Duration // no limit if 0
	Then string        // consequence of the limit, or the reason for a wait without a limit
}

// Wait is something that the machine currently waits for.
type Wait struct {
	Text  string // "" if it is obvious
	Limit Limit
	Since time.Time
}

// String formats the elapsed time, the limit and its consequence.
func (w Wait) String() string {
	text := w.Text
	if text != "" {
		text += ": "
	}
	if w.Limit.Most == 0 {
		return text + "no limit, " + w.Limit.Then
	}
	over := min(time.Since(w.Since), w.Limit.Most)
	return text + fmt.Sprintf("%.0f s of %.0f s, then %s", over.Seconds(), w.Limit.Most.Seconds(), w.Limit.Then)
}

// Flatten flattens joined errors.
func Flatten(err error) (all []error) {
	several, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	for _, one := range several.Unwrap() {
		all = append(all, Flatten(one)...)
	}
	return all
}

// HintOf returns the hint of an error, or "".
func HintOf(err error) string {
	if e, ok := errors.AsType[*writ.Error](err); ok {
		return e.Hint
	}
	return ""
}

// Failure converts an error to a report.
func Failure(stage string, err error) Report {
	return Report{
		Stage: stage, Text: strings.ReplaceAll(err.Error(), "\n", "; "), Next: HintOf(err), Failed: true,
	}
}

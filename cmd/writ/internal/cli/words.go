package cli

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"

	"golang.org/x/crypto/ssh"

	"writ"
	"writ/cmd/writ/internal/terminal"
	"writ/coord/api"
	"writ/identity"
	"writ/internal/hidden"
)

// Count formats a number with its noun.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Mark formats a boolean in a table.
func Mark(is bool) string {
	if is {
		return "*"
	}
	return "-"
}

// Fingerprint returns the fingerprint of a key, "SHA256:…".
func Fingerprint(key ssh.PublicKey) string { return ssh.FingerprintSHA256(key) }

// YesNo returns "yes" or "no".
func YesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

// OnlineShare formats the share of the time that a node was online, "99.98 %". It rounds down, so only full
// availability is shown as 100 %.
func OnlineShare(o writ.Online) string {
	if o.Of <= 0 || o.Seconds == o.Of {
		return "100 %"
	}
	return fmt.Sprintf("%.2f %%", math.Floor(float64(o.Seconds)/float64(o.Of)*10_000)/100)
}

// DecisionText formats a decision with its author and reason, "cordon by alice at 2026-03-01 12:00:00: the disk is
// failing".
func DecisionText(d writ.Decision) string {
	text := fmt.Sprintf("%s by %s at %s", d.Decision, d.Signer, Clock(d.Time))
	if d.Reason != "" {
		text += ": " + d.Reason
	}
	return terminal.Clean(text)
}

// ShellWord quotes a word for a shell.
func ShellWord(w string) string {
	safe := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./=@:,+%", r)
	}
	if w != "" && !strings.ContainsFunc(w, func(r rune) bool { return !safe(r) }) {
		return w
	}
	unseen := func(r rune) bool { return unicode.IsControl(r) || hidden.Is(r) }
	if !strings.ContainsFunc(w, unseen) {
		return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	var b strings.Builder
	for _, r := range w {
		switch {
		case r == '\'' || r == '\\':
			b.WriteString("\\" + string(r))
		case unseen(r) && r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		case unseen(r):
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return "$'" + b.String() + "'"
}

// ShortDuration formats a duration with a precision that suits people.
func ShortDuration(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	default:
		return d.Round(time.Second).String()
	}
}

// Compact formats values of scripts in one line.
func Compact(values map[string]any) string {
	if len(values) == 0 {
		return ""
	}
	text, err := json.Marshal(values)
	if err != nil {
		return ""
	}
	return string(text)
}

// Number formats a number, "" for zero.
func Number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// Age formats the time since t, "" for the zero time.
func Age(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	switch d := time.Since(t); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(max(d, 0).Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}

// Clock formats a time in the local time zone.
func Clock(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

// Unheard formats the state of a node that is not ready, with the time of its last beat: "is lost since …".
func Unheard(n writ.Node) string {
	if n.Liveness == writ.LivenessForgotten {
		return "is unknown to its datacenter: the journal of the supervisor came from a backup, or is an incomplete copy"
	}
	if n.LastBeat.IsZero() {
		return "is " + string(n.Liveness) + ": its supervisor has received no heartbeat from it"
	}
	return fmt.Sprintf("is %s since %s", n.Liveness, Clock(n.LastBeat))
}

// restoredFor is how long the restore of a journal is shown. Runs and resources that it lost are missed within days.
const restoredFor = 7 * 24 * time.Hour

// RestoredText describes the journal of a datacenter that came from a backup, or is a copy without its newest records. It
// returns "" if that never happened, or long ago.
func RestoredText(d api.Datacenter, now time.Time) string {
	if d.Restored.IsZero() || now.Sub(d.Restored) > restoredFor {
		return ""
	}
	return "its journal is a backup, or a copy without its newest records: found at " + Clock(d.Restored)
}

// SignedBy formats the signer, and the certificate if there is one.
func SignedBy(name string, c *identity.Certificate) string {
	if c == nil {
		return name
	}
	return terminal.Clean(fmt.Sprintf("%s, by %s", name, c))
}

// DriverName returns the driver of a call, and whether it was simulated.
func DriverName(c writ.Call) string {
	switch {
	case c.Simulated && c.Driver != "" && c.Driver != "simulated":
		return c.Driver + ", simulated"
	case c.Simulated:
		return "simulated"
	}
	return c.Driver
}

// OnlyURL describes the update of an image, whose only mutable field is its url. The node does not request the new url
// while it has the content. Otherwise an unavailable server would fail a script without a download.
const OnlyURL = "the content stays; the new url is not checked before the next fetch"

// ChangeText formats the change of a call, "" without a change.
func ChangeText(c writ.Call) string {
	if c.Operation == "image.fetch" && c.Change == writ.ChangeUpdated {
		return string(c.Change) + " (" + OnlyURL + ")"
	}
	return string(c.Change)
}

// StateText formats the state of a resource, with its health: "running, healthy".
func StateText(s writ.Standing) string {
	if s.Health == "" {
		return s.State
	}
	return s.State + ", " + s.Health
}

// StateNow formats the state of a listed resource like StateText. If the state is not current, it returns "unknown".
func StateNow(r api.ListedResource) string {
	if r.Unheard != nil && r.State != "" {
		return "unknown"
	}
	return StateText(r.Standing)
}

// StateClause formats the state of a run or submission as the end of a sentence: "has failed", "is running".
func StateClause(s writ.RunState) string {
	switch s {
	case writ.RunSucceeded, writ.RunFailed, writ.RunExpired:
		return "has " + string(s)
	case writ.RunCancelled, writ.RunState(writ.SubmissionRefused):
		return "was " + string(s)
	}
	return "is " + string(s)
}

// Package progress is what a machine that starts tells a boot server of itself: one report for each stage. A report proves nothing, because any
// machine of that network can send it. So it is bounded and cleaned by the side that sends it, and again by the side that takes it. It must not
// know how a report travels.
package progress

import (
	"crypto/sha256"
	"encoding/hex"
	"net"
	"regexp"
	"strings"
	"unicode"

	"writ"
	"writ/internal/hidden"
)

// Bounds of a report.
const (
	MaxBytes = 4 << 10 // as JSON
	MaxText  = 300     // bytes of each text
)

// Path is where a boot server takes reports, below its address. The address of a machine's network card follows, as Name writes it.
const Path = "/boot/report/"

// The stages that mean something to a boot server. Others are shown as they are.
const (
	StageStart   = "start"   // the kernel runs
	StagePanic   = "panic"   // the kernel panicked at the end of the start before
	StageData    = "data"    // the disk with the data of the node
	StageConfig  = "config"  // settings
	StageNetwork = "network" // a card has an address
	StageClock   = "clock"   // the clock is right
	StageService = "service" // a program of the image that the runner needs
	StageRunner  = "runner"  // the runner was started, and has to reach its supervisor
	StageWaits   = "waits"   // the node waits to be approved
	StageApprove = "approve" // the datacenter has decided
	StageJoined  = "joined"  // the node serves
	StageOff     = "off"     // the machine turns off, or starts again

	StageWatchdog = "watchdog" // it restarts a machine that hangs
)

// Report says which stage a machine has reached.
type Report struct {
	Stage  string `json:"stage"`
	Text   string `json:"text,omitempty"`
	Failed bool   `json:"failed,omitempty"` // something of the stage does not work, for the reason in Text
	Next   string `json:"next,omitempty"`   // what a person does about that
	Held   bool   `json:"held,omitempty"`   // it failed in the same way the last time, too, and is tried seldom
	Node   string `json:"node,omitempty"`   // what the machine is called as a node
	// Settings is the digest of what the command line says, as SettingsOf makes it: so a boot server sees whether its script counts.
	Settings string `json:"settings,omitempty"`
}

var (
	stagePattern    = regexp.MustCompile(`^[a-z][a-z0-9-]{0,15}$`)
	settingsPattern = regexp.MustCompile(`^[0-9a-f]{16}$`)
)

// SettingsOf is a short digest of the settings on a command line, without the token.
func SettingsOf(cmdline string) string {
	sum := sha256.New()
	for word := range strings.FieldsSeq(cmdline) {
		if strings.HasPrefix(word, "writ.") && !strings.HasPrefix(word, "writ.join=") {
			sum.Write([]byte(word + "\n"))
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// Valid reports whether a report has the form of one. What Clean returns of such a report has that form, too.
func (r Report) Valid() bool {
	return stagePattern.MatchString(r.Stage) && (r.Node == "" || writ.ValidName(r.Node)) && (r.Settings == "" || settingsPattern.MatchString(r.Settings))
}

// Clean returns the report with texts that are bounded and can be shown.
func (r Report) Clean() Report {
	r.Text, r.Next = Text(r.Text, MaxText), Text(r.Next, MaxText)
	return r
}

// Text returns a text without what commands a terminal or deceives a reader, in one line of so many bytes at most.
func Text(text string, most int) string {
	if len(text) > 4*most { // no work for what is thrown away; escapes make a text longer, never shorter
		text = text[:4*most]
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	text = strings.TrimSpace(hidden.Escape(text))
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len("…")], "") + "…"
}

// MAC returns the address of a network card in the one form in which machines are listed, 52:54:00:77:00:50. It returns "" for what no card of a
// machine has.
func MAC(text string) string {
	address, err := net.ParseMAC(text)
	if err != nil || len(address) != 6 || address[0]&1 != 0 || strings.Trim(address.String(), "0:") == "" {
		return ""
	}
	return address.String()
}

// Name is the address of a network card as a part of a URL.
func Name(mac string) string { return strings.ReplaceAll(mac, ":", "-") }

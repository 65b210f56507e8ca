package supervisor

import (
	"net"
	"slices"
	"strconv"
	"strings"

	"writ"
	"writ/internal/clip"
	"writ/scripts"
	"writ/supervisor/bound"
)

// The signature of an envelope proves its node, not that the node is honest. The functions of this file reduce messages
// to values that an honest node can send. A hostile node then harms only its own work, and cannot grow the journal or the
// links without bounds.

const (
	// maxSlots limits the slots of a node.
	maxSlots = 4096
	// maxActive limits the active jobs that a node reports: twice its slots, and the same number with stuck drivers.
	maxActive = 4 * maxSlots
	// maxStuck bounds the jobs of a node that are shown as stuck.
	maxStuck = 256
	// maxProgress bounds the jobs of which a node may say how far they are.
	maxProgress = 256
	// maxDrivers bounds the drivers of a node.
	maxDrivers = 64
	// maxEngines bounds the engines of a driver.
	maxEngines = 16
)

// addressOf is the address of a host and a port that a node says, "" if it is none. Whether it may be asked is for the
// node to decide that would connect there, when names are looked up.
func addressOf(text string) string {
	host, port, err := net.SplitHostPort(text)
	number, wrong := strconv.ParseUint(port, 10, 16)
	odd := strings.ContainsFunc(host,
		func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`/\@?#"'`, r) })
	if err != nil || wrong != nil || number == 0 || host == "" || odd || len(text) > bound.MaxText {
		return ""
	}
	return text
}

// moderate cuts a beat down to what a node can mean.
func moderate(b writ.Beat) writ.Beat {
	b.Health = boundHealth(b.Health)
	b.Boot = hostWord(b.Boot)
	b.Active = b.Active[:min(len(b.Active), maxActive)]
	b.Progress = b.Progress[:min(len(b.Progress), maxProgress)]
	for i := range b.Progress {
		b.Progress[i].Text = clip.Text(b.Progress[i].Text, bound.MaxText)
	}
	b.Inventories = nil // heard already
	return b
}

// validCalls cuts what a node says of a run down to the calls that a run can have.
func validCalls(calls []int) []int {
	calls = slices.DeleteFunc(calls[:min(len(calls), scripts.MaxCalls)],
		func(seq int) bool { return seq < 1 || seq > scripts.MaxCalls })
	slices.Sort(calls)
	return slices.Clone(slices.Compact(calls))
}

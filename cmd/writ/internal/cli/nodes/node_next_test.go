package nodes

import (
	"strings"
	"testing"
	"time"

	"writ"
	"writ/cmd/writ/internal/cli/why"
)

// aNode returns a healthy node of the datacenter dc1, changed by change.
func aNode(change func(*writ.Node)) writ.Node {
	n := writ.Node{
		Name: "n1", Datacenter: "d", Admission: writ.AdmissionApproved, Scheduling: writ.SchedulingOpen, Liveness: writ.LivenessReady,
		LastBeat: time.Now(), Health: writ.Health{Capacity: writ.Capacity{DiskGiB: 10}},
	}
	change(&n)
	return n
}

func TestNodeShowNamesTheNextCommand(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*writ.Node)
		want   string
	}{
		"Forged":    {func(n *writ.Node) { n.Name, n.Fault = "$(reboot)", "x" }, "writ node list"},
		"Healthy":   {func(*writ.Node) {}, ""},
		"Pending":   {func(n *writ.Node) { n.Admission = writ.AdmissionPending }, "writ node approve n1 --dc dc1 --fingerprint SHA256:…"},
		"Removed":   {func(n *writ.Node) { n.Admission, n.Liveness = writ.AdmissionRemoved, writ.LivenessSilent }, ""},
		"Away":      {func(n *writ.Node) { n.Liveness, n.Fault = writ.LivenessUnknown, "no beat" }, "writ dc list"},
		"Forgotten": {func(n *writ.Node) { n.Liveness = writ.LivenessForgotten }, "writ token create --dc dc1"},
		"Silent":    {func(n *writ.Node) { n.Liveness = writ.LivenessSilent }, "writ node logs n1 --dc dc1"},
		"Lost":      {func(n *writ.Node) { n.Liveness = writ.LivenessLost }, "writ node lost n1 --dc dc1"},
		"Faulty":    {func(n *writ.Node) { n.Fault = "the disk is full" }, "writ node logs n1 --dc dc1"},
		"NoSpace":   {func(n *writ.Node) { n.Fault, n.Disks = "no space", []writ.Disk{{Bytes: 100, Free: 1}} }, "writ resource list --node n1"},
		"Stuck":     {func(n *writ.Node) { n.Stuck = make([]writ.Stuck, 1) }, "writ node logs n1 --dc dc1"},
		"Cordoned":  {func(n *writ.Node) { n.Scheduling = writ.SchedulingCordoned }, "writ node uncordon n1 --dc dc1"},
		"Reserved":  {func(n *writ.Node) { n.Used.DiskGiB = 10 }, "writ resource list --node n1"},
		"FullDisk":  {func(n *writ.Node) { n.Disks = []writ.Disk{{Bytes: 100, Free: 1}} }, "writ resource list --node n1"},
	} {
		n := aNode(tt.change)
		next := why.NodeStep(n, "dc1")
		if next.Command != tt.want {
			t.Errorf("%s: next is %q, want %q", name, next.Command, tt.want)
		}
		if text := nodeText(n, next); tt.want != "" && !strings.Contains(text, "\nnext: "+tt.want+"\n") || tt.want == "" && strings.Contains(text, "next: ") {
			t.Errorf("%s: the text is\n%s", name, text)
		}
	}
}

func TestNodeOfAwayDatacenterIsUnknown(t *testing.T) {
	t.Parallel()
	n := aNode(func(n *writ.Node) { n.Liveness = writ.LivenessUnknown })
	if text := nodeText(n, why.Step{}); !strings.HasPrefix(text, "node n1 is approved and open; its liveness is unknown: its datacenter is away\n") {
		t.Errorf("node show says\n%s", text)
	}
	if got := faultOf(n); got != "its datacenter is away" {
		t.Errorf("node list has the fault %q", got)
	}
}

func TestForgottenNodeIsMarked(t *testing.T) {
	t.Parallel()
	n := aNode(func(n *writ.Node) { n.Liveness = writ.LivenessForgotten })
	text := nodeText(n, why.NodeStep(n, "dc1"))
	if !strings.HasPrefix(text, "node n1 is approved and open for the coordinator, and is unknown to its datacenter: ") ||
		!strings.Contains(text, "\nfirst: if the supervisor's directory is a copy without journal.db-wal, ") {
		t.Errorf("node show says\n%s", text)
	}
	if got := faultOf(n); got != "its datacenter does not know it" {
		t.Errorf("node list has the fault %q", got)
	}
}

package doctor

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/cmd/writ/internal/cli"
)

func TestDoctorNamesAnAwayDatacenter(t *testing.T) {
	t.Parallel()
	n := writ.Node{Name: "n1", Admission: writ.AdmissionApproved, Liveness: writ.LivenessUnknown}
	want := []finding{{Check: "nodes", State: suspect, Detail: "the state of 1 node is unknown: the datacenter is away", Fix: "writ dc list"}}
	if diff := cmp.Diff(want, findNodes([]writ.Node{n}, nil)); diff != "" {
		t.Errorf("the doctor finds (-want +got):\n%s", diff)
	}
}

func TestDoctorNamesNodesThatNeedAPerson(t *testing.T) {
	t.Parallel()
	now := time.Now()
	node := func(name string, change func(n *writ.Node)) writ.Node {
		n := writ.Node{Name: name, Datacenter: "d", Admission: writ.AdmissionApproved, Liveness: writ.LivenessReady, LastBeat: now, Health: writ.Health{Capacity: writ.Capacity{DiskGiB: 10}}}
		change(&n)
		return n
	}
	well := node("n1", func(*writ.Node) {})
	waits := node("n6", func(n *writ.Node) { n.Admission, n.Liveness = writ.AdmissionPending, writ.LivenessSilent })
	names := map[writ.DatacenterID]string{"d": "dc1"}
	got := findNodes([]writ.Node{
		well, waits,
		node("n2", func(n *writ.Node) { n.Liveness = writ.LivenessLost }),
		node("n3", func(n *writ.Node) { n.Liveness, n.Fault = writ.LivenessSilent, "its disk is full" }),
		node("n4", func(n *writ.Node) { n.Fault = "the disk is full" }),
		node("n5", func(n *writ.Node) { n.Used.DiskGiB = 10 }),
		node("n7", func(n *writ.Node) { n.Disks = []writ.Disk{{Path: "/srv", Bytes: 100 << 30, Free: 1 << 30}} }),
		node("n8", func(n *writ.Node) { n.Disks = []writ.Disk{{Path: "/srv", Bytes: 100 << 30, Free: 5 << 30}} }),
	}, names)
	want := []finding{
		{Check: "node n2", State: ill, Detail: "is lost since " + cli.Clock(now),
			Fix: "start its machine and its runner: the node then continues with its calls and resources. Otherwise: writ node lost n2 --dc dc1 (if the machine never comes back: declares it lost; its calls fail or move, the names of its resources are free)"},
		{Check: "node n3", State: ill, Detail: "is silent since " + cli.Clock(now) + "; its last fault: its disk is full", Fix: "writ node show n3 --dc dc1"},
		{Check: "node n4", State: ill, Detail: "takes no work: the disk is full", Fix: "writ node show n4 --dc dc1"},
		{Check: "node n5", State: suspect, Detail: "its disk is full: 10 of 10 GiB are reserved", Fix: "writ node show n5 --dc dc1"},
		{Check: "node n7", State: suspect, Detail: "a disk is almost full: /srv has 1.0 of 100.0 GiB free", Fix: "writ node show n7 --dc dc1"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]finding{{Check: "nodes", State: healthy, Detail: "1 node, all ready"}}, findNodes([]writ.Node{well, waits}, names)); diff != "" {
		t.Errorf("if all is well (-want +got):\n%s", diff)
	}
}

package runview

import (
	"testing"
	"time"

	"writ"
	"writ/cmd/writ/internal/terminal"
	"writ/coord/api"
	"writ/internal/test/testenv"
)

func TestWatchWarnsOfFullDiskOnce(t *testing.T) {
	t.Parallel()
	lists := 0
	said := new(testenv.Log)
	p := NewProgress(&terminal.Terminal{Notices: terminal.Notices{Err: said}}, nil, time.Time{})
	p.Disks = &FullDisks{list: func() []writ.Node {
		lists++
		return []writ.Node{{ID: "1", Name: "n1", Findings: writ.Findings{Disks: []writ.Disk{{Path: "/srv", Bytes: 100 << 30, Free: 1 << 30}}}}, {ID: "2", Name: "n2"}}
	}}
	begins := func(seq int, operation string, node writ.NodeID, name string) {
		p.event(api.Event{Call: &writ.Call{Seq: seq, Operation: operation, State: writ.CallRunning, Node: node, NodeName: name}})
	}
	begins(1, "node.ping", "1", "n1")
	begins(2, "volume.create", "2", "n2")
	begins(3, "volume.create", "1", "n1")
	begins(4, "volume.resize", "1", "n1")
	begins(5, "volume.delete", "1", "n1")
	want := "→ 1 node.ping on n1\n→ 2 volume.create on n2\n→ 3 volume.create on n1\n" +
		"warning: a disk of n1 is almost full: /srv has 1.0 of 100.0 GiB free\n→ 4 volume.resize on n1\n→ 5 volume.delete on n1\n"
	if got := said.String(); got != want {
		t.Errorf("it shows\n%swant\n%s", got, want)
	}
	if lists != 1 {
		t.Errorf("it lists the nodes %d times, want once", lists)
	}
}

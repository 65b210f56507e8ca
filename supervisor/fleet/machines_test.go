package fleet

import (
	"testing"
	"time"

	"writ"
	"writ/supervisor/journal"
	"writ/supervisor/nodes"
)

func TestDescriptionOfAnUnknownNodeLeavesNoTrace(t *testing.T) {
	t.Parallel()
	now := time.Now()
	f := New(nil, nil, now)
	report := nodes.HostReport{Node: "n", Incarnation: 7, Count: 1, Epoch: 5, Host: writ.Host{Kernel: "6.1.0"}}
	f.Machines.Describe(report, 5, now)
	if len(f.Machines.nodes) != 0 {
		t.Errorf("machines of unknown nodes: %v", f.Machines.nodes)
	}
	f.Members.Put(journal.Node{Node: writ.Node{ID: "n"}})
	f.Machines.Describe(report, 5, now)
	n, _ := f.Members.Get("n")
	if n.Host == nil || n.Host.Kernel != "6.1.0" {
		t.Errorf("the repeated report is ignored: %+v", n.Host)
	}
}

package workflow

import (
	"slices"
	"testing"
	"time"

	"writ"
	"writ/scripts"
	"writ/supervisor/hold"
	"writ/supervisor/inuse"
	"writ/supervisor/journal"
	"writ/supervisor/placement"
	"writ/supervisor/published"
)

// memory is a placementReader that counts its reads.
type memory struct {
	resources map[writ.ResourceID]*journal.Resource
	index     *inuse.Index
	busy      writ.ResourceID // another run uses it
	reads     int
}

func (m *memory) Resource(id writ.ResourceID) (*journal.Resource, error) {
	m.reads++
	return m.resources[id], nil
}

func (m *memory) OpenCallOn(id writ.ResourceID, _ writ.RunID) (writ.RunID, error) {
	if id == m.busy {
		return "other", nil
	}
	return "", nil
}

func (m *memory) Loads() (map[writ.NodeID]journal.Load, error)            { return nil, nil }
func (m *memory) Users(writ.ProjectID) (*inuse.Index, error)              { return m.index, nil }
func (m *memory) UsersOfPorts([]placement.Port) ([]published.User, error) { return nil, nil }

// oneNode is a datacenter with one node.
type oneNode struct{ writ.Node }

func (n oneNode) Get(id writ.NodeID) (writ.Node, bool)         { return n.Node, id == n.ID }
func (n oneNode) Away(id writ.NodeID) (writ.Node, writ.Reason) { return n.Node, writ.Reason{} }
func (n oneNode) Record(writ.NodeID) *journal.Node             { return nil }
func (n oneNode) Name(writ.NodeID) string                      { return n.Node.Name }
func (n oneNode) Shared() []*writ.Node                         { return []*writ.Node{&n.Node} }

// complete is a datacenter whose journal was never restored.
type complete struct{}

func (complete) RestoredUntil() time.Time             { return time.Time{} }
func (complete) Missing(writ.RunID) writ.Reason       { return writ.Reason{} }
func (complete) Having(writ.RunID, int) []writ.NodeID { return nil }

// planned is a run of the deployment web, with its planned calls and the records of the journal.
type planned struct {
	*Step
	*memory
}

func newPlanned() *planned {
	node := writ.Node{
		ID: "n", Name: "n", Admission: writ.AdmissionApproved, Scheduling: writ.SchedulingOpen, Liveness: writ.LivenessReady,
	}
	node.Capacity = writ.Capacity{CPUs: 1 << 20, MemoryMiB: 1 << 40, DiskGiB: 1 << 40}
	run := &journal.Run{Run: writ.Run{ID: "r", Project: "p", Deployment: "web"}, Destructive: true}
	run.Targets = []string{"*"}
	view := &View{Nodes: oneNode{node}, Holds: hold.New(func() string { return "dc" }), Inventories: complete{}}
	return &planned{
		NewStep(view, run, time.Unix(1, 0)), &memory{resources: make(map[writ.ResourceID]*journal.Resource), index: new(inuse.Index)},
	}
}

// call adds a planned call.
func (p *planned) call(t *testing.T, operation, name string, args map[string]any, after ...int) *journal.Call {
	t.Helper()
	n := scripts.NewCall{Seq: len(p.calls.all) + 1, Operation: operation, Name: name, Args: args, After: after}
	if err := p.addCall(n); err != nil {
		t.Fatal(err)
	}
	return p.calls.at(n.Seq)
}

// allowAll allows the operations of all calls.
func (p *planned) allowAll() {
	for _, c := range p.calls.all {
		p.run.Allow = append(p.run.Allow, c.Operation)
	}
	slices.Sort(p.run.Allow)
	p.run.Allow = slices.Compact(p.run.Allow)
}

// resource adds a resource to the journal.
func (p *planned) resource(deployment, operation string, kind writ.ResourceKind, name string, args map[string]any) {
	r := &journal.Resource{Operation: operation, Args: args}
	r.ResourceID = writ.ResourceID{Project: "p", Kind: kind, Name: name}
	r.Deployment, r.Node, r.UID = deployment, "n", writ.UID(name)
	p.resources[r.ResourceID] = r
	p.index.Set(r.ResourceID, r)
}

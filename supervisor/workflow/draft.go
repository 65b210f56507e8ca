package workflow

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"writ"
	"writ/sal/catalog"
	"writ/supervisor/inuse"
	"writ/supervisor/journal"
	"writ/supervisor/placement"
	"writ/supervisor/published"
)

// maxRounds limits how often the open calls of a plan are arranged again because some of them have ended. A script that
// makes and deletes the same resource repeatedly needs one round for each repetition. After the limit, the outcome of
// the remaining calls is estimated.
const maxRounds = 100

// Draft simulates a run for a preview. The calls of a plan are claimed and placed as in a step, but the journal is only
// read. Where a node would act, the draft assumes the expected outcome and overlays it on the journal for the following
// calls. Calls of one pass are arranged together. When the script waits for a call, the draft assumes that all open
// calls end.
type Draft struct {
	step *Step
	tx   *journal.Tx
	plan []ProposedCall
	Seen []writ.PreviewedCall // by index of plan
	left int                  // rounds left of maxRounds

	laid  map[writ.ResourceID]*journal.Resource // resources after the calls that have ended; nil: gone
	open  map[writ.ResourceID]writ.RunID        // cached answers of OpenCallOn
	loads map[writ.NodeID]journal.Load          // with the overlaid resources, without the open calls of the draft

	changed map[writ.ResourceID]bool // resources that calls of the plan have changed
	users   *inuse.Index             // stored and overlaid resources of the project; nil until it is needed
}

var _ placementReader = (*Draft)(nil)

// NewDraft returns a draft of a plan. The step t belongs to a run that is not stored.
func NewDraft(tx *journal.Tx, t *Step, plan []ProposedCall) (*Draft, error) {
	d := &Draft{
		step: t, tx: tx, plan: plan, Seen: make([]writ.PreviewedCall, len(plan)), left: maxRounds,
		laid: make(map[writ.ResourceID]*journal.Resource), open: make(map[writ.ResourceID]writ.RunID),
		changed: make(map[writ.ResourceID]bool),
	}
	t.verdicts = make(map[int]placement.Decision)
	for i := range d.Seen {
		d.Seen[i].Seq = i + 1
	}
	if err := d.lookUp(); err != nil {
		return nil, err
	}
	var err error
	d.loads, err = tx.Loads()
	return d, err
}

// lookUp loads the resources of all calls of the plan with a few queries. One query per call would dominate the cost of
// a large plan.
func (d *Draft) lookUp() error {
	project := d.step.run.Project
	names := make(map[writ.ResourceKind][]string)
	for i := range d.plan {
		if p := &d.plan[i]; p.Op.Named() {
			names[p.Op.Kind] = append(names[p.Op.Kind], p.Name)
		}
	}
	for kind, all := range names {
		slices.Sort(all)
		all = slices.Compact(all)
		there, err := d.tx.ResourcesNamed(project, kind, all)
		if err != nil {
			return err
		}
		open, err := d.tx.OpenCallsOn(project, kind, all, d.step.run.ID)
		if err != nil {
			return err
		}
		for _, name := range all {
			id := writ.ResourceID{Project: project, Kind: kind, Name: name}
			d.laid[id], d.open[id] = there[name], open[name]
		}
	}
	return nil
}

// Resource implements placementReader. It loads resources that only arguments name on first use.
func (d *Draft) Resource(id writ.ResourceID) (*journal.Resource, error) {
	return once(d.laid, id, func() (*journal.Resource, error) { return d.tx.Resource(id) })
}

// OpenCallOn implements placementReader.
func (d *Draft) OpenCallOn(id writ.ResourceID, except writ.RunID) (writ.RunID, error) {
	return once(d.open, id, func() (writ.RunID, error) { return d.tx.OpenCallOn(id, except) })
}

// Users implements placementReader. A draft has only resources of one project.
func (d *Draft) Users(project writ.ProjectID) (*inuse.Index, error) {
	if d.users == nil {
		stored, err := d.tx.ProjectResources(project)
		if err != nil {
			return nil, err
		}
		d.users = inuse.NewIndex(stored)
		for id, r := range d.laid {
			d.users.Set(id, r)
		}
	}
	return d.users, nil
}

// UsersOfPorts implements placementReader.
func (d *Draft) UsersOfPorts(ports []placement.Port) ([]published.User, error) {
	users, err := journal.UsersOfPorts(d.tx, ports)
	users = slices.DeleteFunc(users, func(u published.User) bool {
		_, overlaid := d.laid[u.ResourceID]
		return overlaid
	})
	var overlaid []published.Resource
	for _, r := range d.laid {
		if r != nil {
			overlaid = append(overlaid, r.Published())
		}
	}
	return append(users, published.Users(overlaid, ports)...), err
}

// Loads implements placementReader.
func (d *Draft) Loads() (map[writ.NodeID]journal.Load, error) {
	loads := maps.Clone(d.loads)
	for _, c := range d.step.calls.all {
		if !c.State.Ended() && c.Node != "" && !d.step.isClaimed(c) {
			reserve(loads, c.Node, c.Need)
		}
	}
	return loads, nil
}

func reserve(loads map[writ.NodeID]journal.Load, node writ.NodeID, more writ.Capacity) {
	l := loads[node]
	l.Reserved = l.Reserved.Plus(more)
	loads[node] = l
}

// lay records the state of a resource after a call, which replaces its state in the journal, and updates the loads.
func (d *Draft) lay(id writ.ResourceID, before, after *journal.Resource) {
	if before != nil && before.Node != "" {
		reserve(d.loads, before.Node, writ.Capacity{}.Minus(before.Need))
	}
	if after != nil && after.Node != "" {
		reserve(d.loads, after.Node, after.Need)
	}
	d.laid[id] = after
	if d.users != nil {
		d.users.Set(id, after)
	}
}

// CarryOut simulates the plan from its first call to its last. The script then reads the results of the calls `last`.
func (d *Draft) CarryOut(ctx context.Context, last []int) error {
	for i := range d.plan {
		p := &d.plan[i]
		if err := await(ctx, d, p.waits); err != nil {
			return err
		}
		if at := slices.IndexFunc(p.waits, func(seq int) bool { return d.step.calls.at(seq).State == writ.CallFailed }); at >= 0 {
			stopAt(d, i, p.waits[at])
			last = nil // the script does not reach the end of the plan, and some of these calls are not made
			break
		}
		if err := d.step.addCall(p.NewCall); err != nil {
			return err
		}
		if p.unnamed && p.Op.Effect != catalog.Make { // its resource is unknown
			d.step.calls.at(p.Seq).State = writ.CallSucceeded
			d.Seen[i].Action, d.Seen[i].Reason = writ.ActionUnknown, unnamedReason
		}
	}
	if err := await(ctx, d, last); err != nil {
		return err
	}
	d.step.run.Completed = true
	if err := d.advance(ctx); err != nil {
		return err
	}
	for _, c := range d.step.calls.all {
		d.close(c)
	}
	return nil
}

const unnamedReason = "its name is not known yet"

// stopAt marks the calls with the index `from` or higher as unreached, because the script needs the result of the call
// `refused`.
func stopAt(d *Draft, from, refused int) {
	why := "the script reads the result of call " + d.step.calls.describe(refused) + ", which is refused"
	for i := from; i < len(d.Seen); i++ {
		d.Seen[i].Action, d.Seen[i].Reason = writ.ActionUnreached, why
	}
}

// await advances the run until all of these calls have ended.
func await(ctx context.Context, d *Draft, calls []int) error {
	for _, seq := range calls {
		if d.step.calls.at(seq).State.Ended() {
			continue
		}
		d.step.run.Waiting = []int{seq}
		if err := d.advance(ctx); err != nil {
			return err
		}
	}
	return nil
}

// advance arranges the open calls and ends them.
func (d *Draft) advance(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := arrange(d.step, d); err != nil {
			return err
		}
		ended, err := d.endCalls(ctx, d.placed)
		if err != nil {
			return err
		}
		if !ended || d.left == 0 {
			break
		}
		if !d.step.calls.anyOpen() {
			return nil
		}
		d.left--
	}
	// The remaining calls wait for a node or for another run. Estimate the outcome of their later step.
	_, err := d.endCalls(ctx, func(c *journal.Call) bool { return c.Why.Code != writ.ReasonUnused })
	return err
}

// placed reports whether a run would send the call now.
func (d *Draft) placed(c *journal.Call) bool {
	return c.Claimed && c.Node != "" && d.step.calls.met(c)
}

// endCalls ends the open calls that the function `may` permits, in order. It reports whether it ended a call. A call
// that needs a failed call fails in the same pass, because it comes after the failed call.
func (d *Draft) endCalls(ctx context.Context, may func(c *journal.Call) bool) (any bool, err error) {
	fails := newCascader(d.step)
	for _, c := range d.step.calls.all {
		if c.State != writ.CallPlanned {
			continue
		}
		if err := cmp.Or(ctx.Err(), fails.apply(c)); err != nil {
			return any, err
		}
		if c.State != writ.CallPlanned || !may(c) {
			continue
		}
		any = true
		if err := d.end(c); err != nil {
			return any, err
		}
	}
	return any, nil
}

// end ends a call with the outcome that its node is expected to report.
func (d *Draft) end(c *journal.Call) error {
	p, out := &d.plan[c.Seq-1], &d.Seen[c.Seq-1]
	explain(d.step, p.Op, c, out)
	if !c.Claimed {
		if err := (claimer{d.step, d}).claim(p.Op, c); err != nil || c.State != writ.CallPlanned {
			return err
		}
	}
	if !p.Op.Named() {
		out.Action = writ.ActionRead
		if p.Op.Effect != catalog.Look {
			out.Action = writ.ActionAct
		}
		c.State = writ.CallSucceeded
		return nil
	}
	have, err := d.Resource(c.Resource())
	if err != nil {
		return err
	}
	if c.UID == "" { // the call waits, so it was not claimed
		c.UID = writ.UID(writ.NewUUID())
		if have != nil {
			c.UID = have.UID
		}
	}
	f := p.foresee(d.step, c, have)
	if f.err == nil {
		if f.err, err = d.unsuitable(p, c, f.action); err != nil {
			return err
		}
	}
	if f.err == nil {
		f.err = p.uselessRule(c, have)
	}
	if f.err == nil && f.action != writ.ActionUnchanged {
		if f.err, err = volumeConflict(d, p, c); err != nil {
			return err
		}
	}
	if f.err != nil {
		return d.step.fail(c, writ.CallFailed, f.err)
	}
	out.Action, out.Fields, out.Drift = f.action, f.fields, f.drift
	if f.action == writ.ActionUnchanged {
		out.Values = d.valuesOf(c, have)
	}
	d.changed[c.Resource()] = d.changed[c.Resource()] || f.action.Changes()
	if p.unnamed {
		out.Action, out.Reason = writ.ActionUnknown, unnamedReason
	}
	result := writ.Result{Change: f.change(), Driver: out.Driver, Simulated: out.Simulated, Values: f.values}
	if p.Op.Effect != catalog.Look {
		if after, told := resourceAfter(d.step, p.Op, c, have, result); told {
			d.lay(c.Resource(), have, after)
		}
	}
	c.State = writ.CallSucceeded
	return nil
}

// valuesOf returns the values of a resource. It returns nil if a call of the plan changes the resource.
func (d *Draft) valuesOf(c *journal.Call, have *journal.Resource) json.RawMessage {
	if have == nil || len(have.Values) == 0 || d.changed[c.Resource()] {
		return nil
	}
	text, err := json.Marshal(have.Values)
	if err != nil {
		return nil
	}
	return text
}

// explain records the node of a call and the reason for the choice, or why the call waits.
func explain(t *Step, op *catalog.Operation, c *journal.Call, out *writ.PreviewedCall) {
	v, chosen := t.verdicts[c.Seq]
	if c.Node == "" || !c.Claimed {
		out.Waits, out.Reason, out.Nodes = true, c.Why.String(), v.Unsuitable
		return
	}
	node, away := t.Nodes.Away(c.Node)
	out.Node, out.NodeName = c.Node, node.Name
	for _, driver := range node.Drivers {
		if driver.Module == op.Module {
			out.Driver, out.Simulated = driver.Name, driver.Simulated
		}
	}
	switch {
	case !away.IsZero():
		away.Node = node.Name
		out.Waits, out.Reason = true, away.String()
	case !chosen || v.Bound:
		out.Reason = "the resources that it needs are there"
	case c.Options.Node != "":
		out.Reason = "the script requests this node"
	case v.Preferred:
		out.Reason = "near the other resources of the run"
	case v.Only:
		out.Reason = "the only suitable node"
	default:
		out.Reason = "the least busy suitable node"
	}
}

// close completes the preview of a call that has ended.
func (d *Draft) close(c *journal.Call) {
	out := &d.Seen[c.Seq-1]
	defer func() { out.Warning = diskWarning(d.step.Nodes, *out, d.plan[c.Seq-1].Op.Effect) }()
	switch {
	case c.State == writ.CallFailed:
		out.Action, out.Fields, out.Error, out.Waits, out.Reason = writ.ActionRefused, nil, c.Error, false, ""
		if c.Error.Code == writ.CodeDependencyFailed {
			out.Error = writ.Errorf(c.Error.Code, "%s", c.Error.Message) // without its hint, which names a run
		}
		switch c.Error.Code {
		case writ.CodeNoCapacity, writ.CodePortClosed, writ.CodePortTaken, writ.CodeDeviceForbidden:
			out.Nodes = d.step.verdicts[c.Seq].Unsuitable
		}
	case out.Action != "":
	case c.Change == writ.ChangeUnchanged: // a delete of a missing resource
		out.Action = writ.ActionUnchanged
	default:
		out.Action = writ.ActionRead
		if have := d.laid[c.Resource()]; have != nil {
			out.Values, out.Drift = d.valuesOf(c, have), driftOf(have)
		}
		if c.Node != "" {
			out.Node, out.NodeName = c.Node, c.NodeName
		}
	}
}

// diskWarning returns a warning if the call may write to a node with an almost full disk.
func diskWarning(nodes Nodes, c writ.PreviewedCall, effect catalog.Effect) string {
	if effect == catalog.Remove || !c.Action.Changes() || c.Node == "" {
		return ""
	}
	n, _ := nodes.Get(c.Node)
	d := n.AlmostFullDisk()
	if d == nil {
		return ""
	}
	// no path: script authors must not learn the paths of nodes
	return fmt.Sprintf("a disk of %s is almost full: %d%% of it is free", n.Name, d.Free*100/d.Bytes)
}

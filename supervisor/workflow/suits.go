package workflow

import (
	"cmp"
	"maps"
	"slices"

	"writ"
	"writ/sal/catalog"
	"writ/supervisor/journal"
	"writ/supervisor/placement"
	"writ/supervisor/published"
)

// unsuitable returns the error of a call whose driver would reject one of its resources: an image of another format, or
// too large content. It returns nil if the resources suit, or if too little is known about them.
func (d *Draft) unsuitable(p *ProposedCall, c *journal.Call, action writ.Action) (*writ.Error, error) {
	if !p.Op.Makes || action == writ.ActionUnchanged {
		return nil, nil
	}
	args := d.step.calls.withResources(p.Op, c)
	for _, field := range p.Op.Args {
		if field.Type != catalog.Handle {
			continue
		}
		have, err := d.Resource(writ.ResourceID{Project: c.Project, Kind: field.Kinds[0], Name: resourceName(args[field.Name])})
		if err != nil {
			return nil, err
		}
		if have == nil {
			continue
		}
		format, known := have.Values["format"].(string)
		if known {
			if err := catalog.WrongFormat(&field, have.ResourceID, format); err != nil {
				return err, nil
			}
		}
		if err := tooLarge(have, args["size_gib"], action); err != nil {
			return err, nil
		}
	}
	return nil, nil
}

// tooLarge returns the error of a call that would make a volume of sizeGiB from larger content.
func tooLarge(content *journal.Resource, sizeGiB any, action writ.Action) *writ.Error {
	size, given := sizeGiB.(int64)
	if !given || action != writ.ActionCreate {
		return nil
	}
	gib, _ := content.Values["size_gib"].(int64)
	mib, _ := content.Values["size_mib"].(int64)
	if size >= gib && size*1024 >= mib {
		return nil
	}
	return writ.Errorf(writ.CodeQuotaExceeded, "%d GiB are too small for the content of %s", size, content.ResourceID).
		WithHint("use a larger size_gib")
}

// resourceName returns the name of the resource in an argument that is a handle or a name, or "".
func resourceName(arg any) string {
	if ref, ok := arg.(map[string]any); ok {
		arg = ref["name"]
	}
	name, _ := arg.(string)
	return name
}

// portsOf returns the ports of a node that a call publishes and its resource does not publish yet.
func portsOf(op *catalog.Operation, c *journal.Call, have *journal.Resource) []placement.PortRequest {
	if op.Effect != catalog.Make {
		return nil
	}
	held := make(map[placement.Port]bool)
	if have != nil {
		for _, p := range published.By(have.Values, have.Args) {
			held[p.Port] = true
		}
	}
	return slices.DeleteFunc(published.In(c.Args["publish"]), func(p placement.PortRequest) bool { return held[p.Port] })
}

// partsOf returns the parts of a node that a call requests and its container does not have yet: an init process, and
// devices.
func partsOf(c *journal.Call, have *journal.Resource) (init bool, devices []string) {
	if c.Kind != writ.KindContainer {
		return false, nil
	}
	var old map[string]any
	if have != nil {
		old = have.Args
	}
	held := textsIn(old["devices"])
	return c.Args["init"] == true && old["init"] != true, slices.DeleteFunc(textsIn(c.Args["devices"]),
		func(name string) bool { return slices.Contains(held, name) })
}

// textsIn returns the texts of a list.
func textsIn(list any) (texts []string) {
	all, _ := list.([]any)
	for _, each := range all {
		if text, ok := each.(string); ok {
			texts = append(texts, text)
		}
	}
	return texts
}

// addPorts sets Ports of the candidates: the ports that are published on a node and that a call to be placed requests.
func addPorts(t *Step, records placementReader, candidates []placement.Candidate) error {
	wanted := make(map[placement.Port]bool)
	for _, c := range t.calls.live {
		if !t.isClaimed(c) && (c.State != writ.CallPlanned || c.Node != "") {
			continue
		}
		for _, p := range published.In(c.Args["publish"]) {
			wanted[p.Port] = true
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	users, err := records.UsersOfPorts(slices.Collect(maps.Keys(wanted)))
	if err != nil {
		return err
	}
	byNode := make(map[writ.NodeID]*placement.Candidate, len(candidates)) // each node may have a user
	for i := range candidates {
		byNode[candidates[i].ID] = &candidates[i]
	}
	for _, u := range users {
		if on := byNode[u.Node]; on != nil {
			claimPorts(on, []placement.PortRequest{u.PortRequest}, u.ResourceID, t.run.Project)
		}
	}
	for _, c := range t.calls.live { // placed in an earlier step, without a result yet
		if c.State.Ended() || c.Node == "" || t.isClaimed(c) {
			continue
		}
		if on := byNode[c.Node]; on != nil {
			claimPorts(on, published.In(c.Args["publish"]), c.Resource(), t.run.Project)
		}
	}
	return nil
}

// claimPorts marks ports of a candidate as published by a resource, for calls of a project. It does not reveal names of
// resources of other projects.
func claimPorts(on *placement.Candidate, ports []placement.PortRequest, by writ.ResourceID, asks writ.ProjectID) {
	if len(ports) == 0 {
		return
	}
	if on.Ports == nil {
		on.Ports = make(map[placement.Port]placement.PortUse)
	}
	counted := make(map[placement.Port]bool, len(ports))
	for _, p := range ports {
		use := on.Ports[p.Port]
		if p.Number == 0 {
			continue
		}
		if !counted[p.Port] {
			counted[p.Port] = true
			use.Containers++
		}
		user := by.String()
		use.Share = p.Share
		if by.Project != asks {
			user, use.Share = "another project", ""
		}
		use.User = cmp.Or(use.User, user)
		on.Ports[p.Port] = use
	}
}

// volumeConflict returns the error of a call that would use a volume together with a machine: a machine shares no
// volumes. It returns nil for other calls. Containers can share volumes.
func volumeConflict(d *Draft, p *ProposedCall, c *journal.Call) (*writ.Error, error) {
	volumes := volumesOf(p.Op, d.step.calls.withResources(p.Op, c))
	if len(volumes) == 0 {
		return nil, nil
	}
	index, err := d.Users(c.Project)
	if err != nil {
		return nil, err
	}
	for _, name := range volumes {
		users := index.Users(writ.KindVolume, name)
		if c.Kind != writ.KindMachine {
			users = index.UsersOfKind(writ.KindVolume, name, writ.KindMachine)
		}
		for _, user := range users {
			switch {
			case user.ResourceID == c.Resource() || user.State == catalog.Gone:
			case user.Kind == writ.KindMachine && c.Kind == writ.KindMachine:
				return catalog.DiskInUse(user.ResourceID, name), nil
			case user.Kind == writ.KindMachine || c.Kind == writ.KindMachine:
				return catalog.VolumeInUse(user.ResourceID,
					writ.ResourceID{Project: c.Project, Kind: writ.KindVolume, Name: name}), nil
			}
		}
	}
	return nil, nil
}

// volumesOf returns the names of the volumes that an operation with these arguments begins to use. Unknown names are
// omitted.
func volumesOf(op *catalog.Operation, args map[string]any) []string {
	switch op.Name() {
	case "machine.create", "machine.attach", "container.create", "container.run":
		return volumesIn(op.Holds(args, nil))
	}
	return nil
}

func volumesIn(refs []writ.Ref) (names []string) {
	for _, r := range refs {
		if r.Kind == writ.KindVolume {
			names = append(names, r.Name)
		}
	}
	return names
}

// disksIn returns the names of a machine's volumes.
func disksIn(values map[string]any) (names []string) {
	disks, _ := values["disks"].([]any)
	for _, disk := range disks {
		if name, ok := disk.(string); ok {
			names = append(names, name)
		}
	}
	return names
}

// keepDisks sets the volumes of a machine after an operation, for the following calls.
func keepDisks(f *foresight, op *catalog.Operation, args map[string]any) {
	disks := disksIn(f.values)
	switch op.Name() {
	case "machine.create":
		if f.action == writ.ActionCreate {
			disks = volumesOf(op, args)
		}
	case "machine.attach":
		disks = append(disks, volumesOf(op, args)...)
	case "machine.detach":
		detached := resourceName(args["volume"])
		disks = slices.DeleteFunc(disks, func(name string) bool { return name == detached })
	default:
		return
	}
	all := make([]any, len(disks))
	for i, name := range disks {
		all[i] = name
	}
	f.values["disks"] = all
}

// uselessRule returns the error of network.allow for a rule that could never match on the network, or nil. It also
// returns nil if too little is known about the rule or the network.
func (p *ProposedCall) uselessRule(c *journal.Call, network *journal.Resource) *writ.Error {
	if p.Op.Name() != "network.allow" || network == nil || network.Operation != "network.create" || len(p.unknown) > 0 {
		return nil
	}
	decoded, err := p.Op.Decode(c.Args)
	args, ok := decoded.(*catalog.NetworkAllow)
	if err != nil || !ok {
		return nil
	}
	_, hasIPv4 := network.Args["ipv4"]
	return catalog.CheckRules(c.Resource(), args.Rules, hasIPv4)
}

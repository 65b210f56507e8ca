package workflow

import (
	"slices"
	"strings"

	"writ"
	"writ/sal/catalog"
	"writ/supervisor/journal"
)

// volumeConflict returns the error of a call that would use a volume together with a machine: a machine needs its
// volumes alone. It returns nil for other calls. Containers can share volumes.
func volumeConflict(d *Draft, p *ProposedCall, c *journal.Call) (*writ.Error, error) {
	volumes := volumesOf(p.Op, d.step.calls.withResources(p.Op, c))
	if len(volumes) == 0 {
		return nil, nil
	}
	others, err := d.ProjectResources(c.Project)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(others, func(a, b *journal.Resource) int {
		return strings.Compare(a.ResourceID.String(), b.ResourceID.String())
	})
	for _, name := range volumes {
		for _, r := range others {
			if r.ResourceID == c.Resource() || r.State == catalog.Gone || !usesVolume(r, name) {
				continue
			}
			switch {
			case r.Kind == writ.KindMachine && c.Kind == writ.KindMachine:
				return catalog.DiskInUse(r.ResourceID, name), nil
			case r.Kind == writ.KindMachine || c.Kind == writ.KindMachine:
				return catalog.VolumeInUse(r.ResourceID,
					writ.ResourceID{Project: c.Project, Kind: writ.KindVolume, Name: name}), nil
			}
		}
	}
	return nil, nil
}

// volumesOf returns the names of the volumes that an operation with these arguments begins to use. Names that are not
// known yet are missing.
func volumesOf(op *catalog.Operation, args map[string]any) []string {
	switch op.Name() {
	case "machine.create", "machine.attach", "container.create":
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

// usesVolume reports whether a resource uses a volume of its project.
func usesVolume(r *journal.Resource, volume string) bool {
	op, known := catalog.Lookup(r.Operation)
	return known && slices.Contains(volumesIn(op.Holds(r.Args, r.Values)), volume)
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

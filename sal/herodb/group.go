package herodb

import (
	"context"
	"slices"
	"strings"

	"writ/internal/cgroup"
	"writ/internal/confine"
	"writ/sal"
)

// maxProcesses is how many processes and threads an engine may have: redis-server has six and one that writes, and hero_redis may have 512
// that wait for disks, beside one for each processor.
const maxProcesses = 1024

// groupsOf are the groups of the driver of a directory.
func groupsOf(dir string) *cgroup.Groups { return cgroup.Of("herodb", dir) }

func (d *Driver) groups() *cgroup.Groups {
	d.usable.Do(func() { d.cgroups = groupsOf(d.Dir) })
	return d.cgroups
}

// group is the name of the database's.
func (j *job) group() string { return j.Resource.HostName() }

// fence makes the group for a process that is about to start.
func (j *job) fence(o own) (confine.Cell, error) {
	cell := confine.Cell{User: o.User}
	if j.Accounts.Used() {
		cell.SharedGroup = j.Accounts.SharedGroup
	}
	if j.groups().About() == "nothing" {
		return cell, nil
	}
	if err := j.bound(o); err != nil {
		return confine.Cell{}, err
	}
	cell.Groups, cell.Group = j.groups(), j.group()
	return cell, nil
}

// bound gives the group the bounds of the record.
func (j *job) bound(o own) error {
	j.step("bound the process")
	b := cgroup.Bounds{Memory: o.MemoryMiB << 20, Processes: maxProcesses}
	return sal.HostError("bound the process of "+j.Resource.String(), j.groups().Bound(j.group(), b))
}

// rebound bounds a process that runs as the record says now, also one that was started by a version which knew no group.
func (j *job) rebound(p pid, o own) error {
	if j.groups().About() == "nothing" {
		return nil
	}
	if err := j.bound(o); err != nil {
		return err
	}
	in, err := j.groups().Has(j.group(), p.PID)
	if err == nil && !in {
		j.step("put the process into its group")
		err = j.groups().Add(j.group(), p.PID)
	}
	return sal.HostError("bound the process of "+j.Resource.String(), err)
}

// unfence ends whatever is left in the group, and takes it away. Where there are no groups it is known by its user, if that is one of ours:
// another node of this host may have the number of a record from before.
func (j *job) unfence(ctx context.Context, o own) error {
	if j.groups().About() == "nothing" {
		if !j.Accounts.Has(o.User) {
			return nil
		}
		j.step("end what is left of the user")
		return sal.HostError("end what the process of "+j.Resource.String()+" left", confine.End(ctx, o.User))
	}
	j.step("remove the group")
	return sal.HostError("remove the group of "+j.Resource.String(), j.groups().Remove(ctx, j.group()))
}

// starved says that the kernel killed what was started last, because it took more memory than it may.
func (j *job) starved() bool { return j.groups().Stat(j.group()).OutOf > 0 }

// bounded says in some words what bounds engines.
func (d *Driver) bounded() string {
	lacking, _ := d.groups().Lacks()
	switch {
	case slices.Contains(lacking, "memory"):
		return "nothing but the engine itself"
	case len(lacking) > 0:
		return d.groups().About() + ", without " + strings.Join(lacking, " and ")
	default:
		return d.groups().About()
	}
}

package herodb

import (
	"context"
	"slices"
	"strings"

	"writ/internal/cgroup"
	"writ/internal/confine"
	"writ/sal"
)

// maxProcesses limits the processes and threads of an engine. redis-server has six, and one more for a snapshot.
// hero_redis may have 512 for disk I/O, plus one per CPU.
const maxProcesses = 1024

// groupsOf returns the cgroups of the driver with this directory.
func groupsOf(dir string) *cgroup.Groups { return cgroup.Of("herodb", dir) }

// groups returns the cgroups of databases.
func (d *Driver) groups() *cgroup.Groups {
	d.usable.Do(func() { d.cgroups = groupsOf(d.Dir) })
	return d.cgroups
}

// makeCgroup makes the cgroup for a process that is about to start.
func (j *job) makeCgroup(o own) (confine.Cell, error) {
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
	cell.Groups, cell.Group = j.groups(), j.Resource.HostName()
	return cell, nil
}

// bound sets the limits of the group from the record.
func (j *job) bound(o own) error {
	j.step("bound the process")
	b := cgroup.Bounds{Memory: o.MemoryMiB << 20, Processes: maxProcesses}
	return sal.HostError("bound the process of "+j.Resource.String(), j.groups().Bound(j.Resource.HostName(), b))
}

// rebound sets the limits of a running process from the record. It adds a process to its group if an earlier version
// started the process without one.
func (j *job) rebound(p pid, o own) error {
	if j.groups().About() == "nothing" {
		return nil
	}
	if err := j.bound(o); err != nil {
		return err
	}
	in, err := j.groups().Has(j.Resource.HostName(), p.PID)
	if err == nil && !in {
		j.step("put the process into its group")
		err = j.groups().Add(j.Resource.HostName(), p.PID)
	}
	return sal.HostError("bound the process of "+j.Resource.String(), err)
}

// removeCgroup ends the processes left in the group and removes the group. Without cgroups, it ends the processes of
// the database's user, but only if Accounts contains this user. Otherwise the record is old, and the user may now
// belong to another node on this host.
func (j *job) removeCgroup(ctx context.Context, o own) error {
	if j.groups().About() == "nothing" {
		if !j.Accounts.Has(o.User) {
			return nil
		}
		j.step("end the remaining processes")
		return sal.HostError("end the remaining processes of "+j.Resource.String(), confine.End(ctx, o.User))
	}
	j.step("remove the group")
	return sal.HostError("remove the group of "+j.Resource.String(), j.groups().Remove(ctx, j.Resource.HostName()))
}

// starved reports whether the kernel killed the last process because it exceeded its memory limit.
func (j *job) starved() bool { return j.groups().Stat(j.Resource.HostName()).OutOf > 0 }

// bounded describes the limits of databases in a few words.
func bounded(groups *cgroup.Groups) string {
	lacking, _ := groups.Lacks()
	switch {
	case slices.Contains(lacking, "memory"):
		return "the engine alone"
	case len(lacking) > 0:
		return groups.About() + ", without " + strings.Join(lacking, " and ")
	default:
		return groups.About()
	}
}

package cloudhypervisor

import (
	"context"

	"writ"
	"writ/internal/cgroup"
	"writ/internal/confine"
	"writ/sal"
)

// What the process of a machine may take besides what its guest has.
const (
	// Memory for itself: cloud-hypervisor takes 10 MiB at most by its own tests, and what the kernel keeps for it comes on top. Kata Containers
	// reckons with 130 MiB for each, with its daemons.
	overheadMiB = 128
	// One in overheadShare of the guest's memory, for the tables that lead to it: 8 bytes of 4096 for the process and as many for KVM, and as
	// many again while it is on its way to a snapshot, make one in 170.
	overheadShare = 64
	// Processors for the threads that carry packets and blocks, in thousandths.
	overheadCPU = 1000
	// Threads: one for each CPU that it may ever have, at most 255, for each device, and some.
	maxThreads = 512
)

// boundsOf are what a machine's process may take.
func boundsOf(o own) cgroup.Bounds {
	return cgroup.Bounds{
		Memory:    (o.MemoryMiB + o.MemoryMiB/overheadShare + overheadMiB) << 20,
		MilliCPUs: o.CPUs*1000 + overheadCPU,
		Weight:    o.CPUs * cgroup.PerCPU,
		Processes: maxThreads,
	}
}

// groupsOf are the groups of the driver of a directory.
func groupsOf(dir string) *cgroup.Groups { return cgroup.Of("machine", dir) }

func (d *Driver) groups() *cgroup.Groups {
	d.usable.Do(func() { d.cgroups = groupsOf(d.Dir) })
	return d.cgroups
}

// fence makes the group for a process that is about to start, in the place of one before. Whatever that left behind ends.
func (j *job) fence(r *sal.Record[own]) (confine.Cell, error) {
	cell := confine.Cell{User: r.Own.User, Devices: []string{"/dev/kvm", "/dev/net/tun"}}
	if j.Accounts.Used() {
		cell.SharedGroup = j.Accounts.SharedGroup
	}
	ctx, cancel := context.WithTimeout(context.Background(), cleaning)
	defer cancel()
	if err := j.unfence(ctx, r); err != nil {
		return confine.Cell{}, err
	}
	if j.groups().About() == "nothing" {
		return cell, nil
	}
	if err := j.bound(r); err != nil {
		return confine.Cell{}, err
	}
	cell.Groups, cell.Group = j.groups(), r.Resource.HostName()
	return cell, nil
}

// bound gives the group the bounds of the record.
func (j *job) bound(r *sal.Record[own]) error {
	if j.groups().About() == "nothing" {
		return nil
	}
	j.step("bound the process")
	return sal.HostError("bound the process of "+r.Resource.String(), j.groups().Bound(r.Resource.HostName(), boundsOf(r.Own)))
}

// rebound bounds a process that runs as the record says now, also one that was started by a version which knew no group.
func (j *job) rebound(r *sal.Record[own], pid int) error {
	if j.groups().About() == "nothing" {
		return nil
	}
	if err := j.bound(r); err != nil {
		return err
	}
	in, err := j.groups().Has(r.Resource.HostName(), pid)
	if err == nil && !in {
		j.step("put the process into its group")
		err = j.groups().Add(r.Resource.HostName(), pid)
	}
	return sal.HostError("bound the process of "+r.Resource.String(), err)
}

// unfence ends whatever is left in the group, and takes it away. Where there are no groups it is known by its user, if that is one of ours:
// another node of this host may have the number of a record from before.
func (j *job) unfence(ctx context.Context, r *sal.Record[own]) error {
	if j.groups().About() == "nothing" {
		if !j.Accounts.Has(r.Own.User) {
			return nil
		}
		j.step("end what is left of the user")
		return sal.HostError("end what the process of "+r.Resource.String()+" left", confine.End(ctx, r.Own.User))
	}
	j.step("remove the group")
	return sal.HostError("remove the group of "+r.Resource.String(), j.groups().Remove(ctx, r.Resource.HostName()))
}

// starved says that the kernel killed what was started last for a machine, because it took more memory than it may.
func (d *Driver) starved(resource writ.ResourceID) bool {
	return d.groups().Stat(resource.HostName()).OutOf > 0
}

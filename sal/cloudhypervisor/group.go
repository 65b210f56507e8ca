package cloudhypervisor

import (
	"context"

	"writ/internal/cgroup"
	"writ/internal/confine"
	"writ/sal"
)

// Resources of a machine's process in addition to those of its guest.
const (
	// overheadMiB is the memory of the process itself. In its own tests, cloud-hypervisor needs at most 10 MiB plus
	// kernel memory. Kata Containers reserves 130 MiB per machine, including its daemons.
	overheadMiB = 128
	// overheadShare is a divisor: this share of the guest's memory is added for page tables. The process, KVM and a
	// snapshot in progress need 8 bytes per 4096 bytes each: 1/170 together.
	overheadShare = 64
	// overheadCPU is in thousandths of a CPU, for the threads that move packets and blocks.
	overheadCPU = 1000
	// maxThreads covers one thread per CPU (at most 255), one per device, and some more.
	maxThreads = 512
)

// boundsOf returns the resource limits of a machine's process.
func boundsOf(o own) cgroup.Bounds {
	return cgroup.Bounds{
		Memory:    (o.MemoryMiB + o.MemoryMiB/overheadShare + overheadMiB) << 20,
		MilliCPUs: o.CPUs*1000 + overheadCPU,
		Weight:    o.CPUs * cgroup.PerCPU,
		Processes: maxThreads,
	}
}

// groupsOf returns the cgroups of the driver with this directory.
func groupsOf(dir string) *cgroup.Groups { return cgroup.Of("machine", dir) }

// makeCgroup creates the cgroup for a process that is about to start and returns its cell. It first removes the
// previous cgroup and ends the processes left in it.
func (j *job) makeCgroup(r *sal.Record[own]) (confine.Cell, error) {
	cell := confine.Cell{User: r.Own.User, Devices: []string{"/dev/kvm", "/dev/net/tun"}}
	if j.Accounts.Used() {
		cell.SharedGroup = j.Accounts.SharedGroup
	}
	ctx, cancel := context.WithTimeout(context.Background(), cleaning)
	defer cancel()
	if err := j.removeCgroup(ctx, r); err != nil {
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

// bound sets the limits of the group from the record.
func (j *job) bound(r *sal.Record[own]) error {
	if j.groups().About() == "nothing" {
		return nil
	}
	j.step("bound the process")
	return sal.HostError("bound the process of "+r.Resource.String(),
		j.groups().Bound(r.Resource.HostName(), boundsOf(r.Own)))
}

// rebound sets the limits of a running process from the record. It adds a process to its group if an earlier version
// started the process without one.
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

// removeCgroup ends the processes left in the group and removes the group. Without cgroups, it ends the processes of
// the machine's user, but only if Accounts contains this user. Otherwise the record is old, and the user may now belong
// to another node on this host.
func (j *job) removeCgroup(ctx context.Context, r *sal.Record[own]) error {
	if j.groups().About() == "nothing" {
		if !j.Accounts.Has(r.Own.User) {
			return nil
		}
		j.step("end the remaining processes")
		return sal.HostError("end the remaining processes of "+r.Resource.String(), confine.End(ctx, r.Own.User))
	}
	j.step("remove the group")
	return sal.HostError("remove the group of "+r.Resource.String(), j.groups().Remove(ctx, r.Resource.HostName()))
}

// outOfMemory reports whether the kernel killed the last process of a group because it exceeded its memory limit.
func outOfMemory(groups *cgroup.Groups, name string) bool { return groups.Stat(name).OutOf > 0 }

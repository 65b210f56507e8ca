package cloudhypervisor

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"writ"
	"writ/internal/cgroup"
	"writ/internal/procstat"
	"writ/sal"
	"writ/sal/catalog"
	"writ/sal/cloudhypervisor/api"
)

// Inventory finds the records, processes and groups of the machines below a directory. Its exported methods are
// read-only.
type Inventory struct {
	Dir string // required: absolute path of the directory for all files of the driver
	// Step is called before each change to the host. Tests use it to stop the driver at that point. May be nil.
	Step func(name string)

	usable  sync.Once // guards cgroups
	cgroups *cgroup.Groups
}

// Observe returns the state of a machine from its record and its process.
func (i *Inventory) Observe(ctx context.Context, resource writ.ResourceID) (sal.Observation, error) {
	r, err := i.records().Get(resource)
	if err != nil || r == nil {
		return sal.Observation{}, err
	}
	seen := sal.Observation{Exists: true, UID: r.UID, State: string(r.Own.Phase)}
	now, err := powerOf(ctx, i, r)
	if err != nil {
		return sal.Observation{}, err
	}
	if r.Own.Phase == ready {
		seen.State = string(now)
	}
	seen.Values = catalog.Values(show(r, now))
	return seen, ctx.Err()
}

// List returns every machine that has a record, including machines whose creation or deletion is unfinished.
func (i *Inventory) List(ctx context.Context) ([]writ.ResourceID, error) {
	return i.records().Resources(ctx)
}

// Usage returns the CPUs and memory of a machine while it runs, the bytes that its interfaces have transferred since
// its start, and the size of its snapshots. The disk space of its volumes is not included; the volume driver reports
// it.
func (i *Inventory) Usage(ctx context.Context, resource writ.ResourceID) (sal.Usage, error) {
	r, err := i.records().Get(resource)
	if err != nil || r == nil {
		return sal.Usage{}, err
	}
	u := sal.Usage{DiskGiB: r.Own.diskGiB()}
	v, err := i.openProcess(r)
	if err != nil || v == nil {
		return u, err
	}
	defer v.release()
	u.CPUs, u.MemoryMiB = writ.Hundredths(r.Own.CPUs*100), r.Own.MemoryMiB
	soon, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	counters, err := v.Counters(soon)
	if _, none := errors.AsType[*api.Refusal](err); none {
		return u, nil // not booted yet
	}
	if err != nil { // zero would look like a counter reset, and the next reading would count everything twice
		return sal.Usage{}, sal.HostError("read the counters of "+resource.String(), err)
	}
	for device, counts := range counters {
		if strings.HasPrefix(device, netPrefix) {
			u.Received += int64(counts["rx_bytes"])
			u.Sent += int64(counts["tx_bytes"])
		}
	}
	return u, ctx.Err()
}

// Load returns the CPU time and memory of a machine's process, including its guest. Restarts counts the driver's
// restarts since the last stop, restore or host reboot.
func (i *Inventory) Load(_ context.Context, resource writ.ResourceID) (sal.Load, error) {
	r, err := i.records().Get(resource)
	if err != nil || r == nil {
		return sal.Load{}, err
	}
	l := sal.Load{UID: r.UID, Restarts: int64(r.Own.Past.Restarts)}
	v, err := i.openProcess(r)
	if err != nil || v == nil {
		return l, err
	}
	defer v.release()
	l.CPU, l.Memory, err = procstat.Taken(v.pid)
	if errors.Is(err, fs.ErrNotExist) { // it has just ended
		return l, nil
	}
	if err != nil {
		return l, sal.HostError("measure the process of "+resource.String(), err)
	}
	l.Running = true
	return l, nil
}

// Users returns the machines whose records list the volume. It returns an error if any record is damaged.
func (i *Inventory) Users(ctx context.Context, volume writ.UID) ([]sal.User, error) {
	records, damaged, err := i.records().List()
	if err != nil {
		return nil, err
	}
	if len(damaged) > 0 {
		return nil, damaged[0].Hides(writ.KindVolume)
	}
	var all []sal.User
	for _, r := range records {
		if has(r, volume) {
			all = append(all, sal.User{Owner: owner(r), Running: r.Own.Power != stopped || r.Own.Process != nil})
		}
	}
	slices.SortFunc(all, func(a, b sal.User) int { return cmp.Compare(a.UID, b.UID) })
	return all, ctx.Err()
}

// ImageUsers returns the machines with the image as kernel or initramfs. A machine reads the image file at each start.
func (i *Inventory) ImageUsers(_ context.Context, image sal.Owner) ([]sal.Owner, error) {
	return i.records().UsersOfImage(image, func(r *sal.Record[own]) (bool, error) {
		if r.Lost { // it is being deleted and does not start again
			return false, nil
		}
		args, err := readSpec(r)
		return err == nil &&
			(image.Means(r.Resource.Project, args.Kernel) || image.Means(r.Resource.Project, args.Initramfs)), err
	})
}

// SnapshotBytes returns the size of all snapshots of a project's machines.
func (i *Inventory) SnapshotBytes(project writ.ProjectID) (sum int64, err error) {
	records, _, err := i.records().List()
	for _, r := range records {
		if r.Resource.Project == project {
			sum += r.Own.snapshotBytes()
		}
	}
	return sum, err
}

// Written implements sal.Logging.
func (i *Inventory) Written(_ context.Context, resource writ.ResourceID, after string) (bool, error) {
	r, err := i.records().Get(resource)
	if err != nil || r == nil {
		return false, err
	}
	return consoleOf(i.dirOf(resource), r.UID).Written(after)
}

// Process implements sal.Served.
func (i *Inventory) Process(_ context.Context, resource writ.ResourceID) (sal.Process, error) {
	r, err := i.records().Get(resource)
	if err != nil || r == nil {
		return nil, err
	}
	v, err := i.openProcess(r)
	if err != nil || v == nil {
		return nil, err
	}
	return servedProcess{v}, nil
}

// Orphans returns damaged records, processes that match no record, and directories and cgroups without a record.
func (i *Inventory) Orphans(ctx context.Context) ([]sal.Orphan, error) {
	pids, err := withArguments(below(i.machines()))
	if err != nil {
		return nil, sal.HostError("list the processes", err)
	}
	dirs, err := os.ReadDir(i.machines())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, sal.HostError("list the directories of machines", err)
	}
	groups, err := i.groups().All()
	if err != nil {
		return nil, sal.HostError("list the groups of machines", err)
	}
	records, damaged, err := i.records().List() // after listing processes: a record exists before its process does
	if err != nil {
		return nil, err
	}
	for _, r := range records {
		v, err := i.openProcess(r)
		if err != nil {
			return nil, err
		}
		if v != nil {
			pids = slices.DeleteFunc(pids, func(pid int) bool { return pid == v.pid })
			v.release()
		}
		dirs = slices.DeleteFunc(dirs, func(e fs.DirEntry) bool { return e.Name() == r.Resource.HostName() })
	}
	for _, r := range records {
		delete(groups, r.Resource.HostName())
	}
	for _, r := range damaged {
		delete(groups, r.HostName)
		dirs = slices.DeleteFunc(dirs, func(e fs.DirEntry) bool { return e.Name() == r.HostName })
		its := below(filepath.Join(i.machines(), r.HostName))
		pids = slices.DeleteFunc(pids, func(pid int) bool { return its(argumentsOf(pid)) })
	}
	all := sal.DamagedOrphans(damaged)
	for _, pid := range pids {
		all = append(all, sal.Orphan{
			Kind: "process", Name: strconv.Itoa(pid), Of: servedBy(i.machines(), pid),
			Remedy: sal.Command("kill", strconv.Itoa(pid)),
		})
	}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		all = append(all,
			sal.Orphan{Kind: "cgroup", Name: groups[name], Of: name, Remedy: sal.Command("rmdir", groups[name])})
	}
	for _, e := range dirs {
		path := filepath.Join(i.machines(), e.Name())
		all = append(all,
			sal.Orphan{Kind: "directory", Name: path, Of: e.Name(), Remedy: sal.Command("rm", "-r", path)})
	}
	return all, ctx.Err()
}

// openProcess returns the process of a machine, or nil if it has ended or was never started. The caller must release
// it.
func (i *Inventory) openProcess(r *sal.Record[own]) (*vmm, error) {
	p := r.Own.Process
	if p == nil {
		return nil, nil
	}
	boot, err := thisBoot()
	if err != nil {
		return nil, sal.HostError("read the host's boot id", err)
	}
	if p.Boot != boot {
		return nil, nil
	}
	dir := i.dirOf(r.Resource)
	pid := p.PID
	if pid == 0 {
		if pid, err = launched(dir, p.Launch, r.Own.User); err != nil {
			return nil, sal.HostError("find the process of "+r.Resource.String(), err)
		}
		if pid == 0 {
			return nil, nil
		}
	}
	h, err := hold(pid)
	if err != nil {
		return nil, sal.HostError("inspect the process of "+r.Resource.String(), err)
	}
	if h == nil {
		return nil, nil
	}
	if p.PID != 0 && (h.started != p.Started || !isLaunch(dir, p.Launch)(argumentsOf(pid))) {
		h.release() // the PID was reused
		return nil, nil
	}
	return newVMM(i.groups(), dir, h), nil
}

// patience limits how long a read-only operation waits for a busy process, which answers one request at a time.
const patience = 2 * time.Second

// powerOf returns the current power state of a machine. A process that does not answer is busy with the requested change,
// so powerOf returns the requested state.
func powerOf(ctx context.Context, i *Inventory, r *sal.Record[own]) (power, error) {
	v, err := i.openProcess(r)
	if err != nil || v == nil {
		return stopped, err
	}
	defer v.release()
	soon, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	now, _, err := v.state(soon)
	if err != nil {
		return r.Own.Power, ctx.Err()
	}
	return now, nil
}

func (i *Inventory) groups() *cgroup.Groups {
	i.usable.Do(func() { i.cgroups = groupsOf(i.Dir) })
	return i.cgroups
}

func (i *Inventory) records() *sal.Records[own] {
	return &sal.Records[own]{Dir: filepath.Join(i.Dir, "records"), Step: i.Step}
}

func (i *Inventory) machines() string { return filepath.Join(i.Dir, "machines") }

func (i *Inventory) dirOf(resource writ.ResourceID) string {
	return filepath.Join(i.machines(), resource.HostName())
}

// servedProcess implements sal.Process for the process of a machine.
type servedProcess struct{ *vmm }

// Wait implements sal.Process.
func (s servedProcess) Wait(ctx context.Context) error { return s.wait(ctx) }

// Close implements sal.Process.
func (s servedProcess) Close() { s.release() }

// servedBy returns the host name of the machine that a process serves, or "". The name is the part after the directory
// machines in an argument of the process.
func servedBy(machines string, pid int) string {
	dir := filepath.Clean(machines) + string(filepath.Separator)
	for _, argument := range argumentsOf(pid) {
		if _, path, found := strings.Cut(argument, dir); found {
			name, _, _ := strings.Cut(path, string(filepath.Separator))
			return name
		}
	}
	return ""
}

package cloudhypervisor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"writ"
	"writ/sal"
	"writ/sal/cloudhypervisor/api"
)

// past is the history of a machine since its power state was last requested.
type past struct {
	Started  time.Time `json:"started,omitzero"`
	Restarts int       `json:"restarts,omitempty"` // by the driver, after the process died
	Quick    int       `json:"quick,omitempty"`    // consecutive restarts that followed soon after the previous one
	Off      bool      `json:"off,omitempty"`      // the guest turned itself off; only an operation starts it again
	Reboots  int       `json:"reboots,omitempty"`  // reboots by the guest that were reported
	Heard    heard     `json:"heard,omitzero"`     // events of the current process
}

// began resets the history at a start of the process.
func (p *past) began(now time.Time) {
	p.Started, p.Off, p.Reboots, p.Heard = now, false, 0, heard{}
}

// A machine that ran for at least steady before its process died is restarted at once. Otherwise the pause before each
// restart doubles, from shortest to longest.
const (
	steady   = 10 * time.Minute
	shortest = 10 * time.Second
	longest  = 10 * time.Minute
)

// due returns the earliest time of the next restart.
func (p *past) due() time.Time {
	if p.Quick == 0 {
		return p.Started
	}
	return p.Started.Add(min(longest, shortest<<min(p.Quick, 10)))
}

// again records a restart of the process.
func (p *past) again(now time.Time) {
	if now.Sub(p.Started) >= steady {
		p.Quick = 0
	}
	p.Quick++
	p.Restarts++
	p.began(now)
}

// Keep compares a machine with its record and repairs it. It starts a machine whose process died or whose host
// rebooted, and finishes interrupted operations. A guest that turned itself off stays off, and a machine that was
// paused when its process died has lost its memory. Both are reported until the machine is started, stopped or deleted.
func (d *Driver) Keep(ctx context.Context, resource writ.ResourceID) ([]sal.Drift, error) {
	r, err := d.records().Get(resource)
	if err != nil || r == nil {
		return nil, err
	}
	j := d.job(sal.Request{Resource: resource, UID: r.UID, Progress: func(string) {}})
	interrupted := r.Own.Phase
	if r, err = j.recovered(ctx, r); err != nil || r == nil {
		return nil, err
	}
	k := &keeping{job: j, r: r}
	if interrupted == restoring {
		k.drifted(true, "the restore of a snapshot was interrupted")
	}
	if err := j.keepSnapshots(r); err != nil {
		return k.drift, err
	}
	if r.Own.Power == stopped {
		return k.drift, k.keepStopped(ctx)
	}
	k.listen()
	err = k.keepUp(ctx)
	if trimmed := j.trim(j.dir); trimmed != nil {
		k.drifted(false, "its console or log cannot be trimmed: %v", trimmed)
	}
	return k.drift, err
}

// listen reads the new events of the process and reports a failure as drift.
func (k *keeping) listen() {
	if err := k.readEvents(); err != nil {
		k.drifted(false, "the events of its process cannot be read: %v", err)
	}
}

// keeping is one run of Keep for one machine.
type keeping struct {
	*job
	r     *sal.Record[own]
	drift []sal.Drift
}

func (k *keeping) drifted(mended bool, format string, args ...any) {
	k.drift = append(k.drift, sal.Drift{What: fmt.Sprintf(format, args...), Mended: mended})
}

// mend calls do to repair a drift and reports the result. It returns an error only if ctx has ended; any other failure
// becomes part of the drift.
func (k *keeping) mend(ctx context.Context, what string, do func() error) error {
	err := do()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		k.drifted(false, "%s, and the repair failed: %v", what, err)
		return nil
	}
	k.drifted(true, "%s", what)
	return nil
}

// keepStopped finishes a stop.
func (k *keeping) keepStopped(ctx context.Context) error {
	v, err := k.openProcess(k.r)
	if err != nil || v == nil && k.r.Own.Process == nil {
		return err
	}
	if v == nil {
		k.r.Own.Process = nil
		return k.records().Put(k.r)
	}
	defer v.release()
	const grace = 30 * time.Second // the default of machine.stop
	return k.mend(ctx, "its process ran although it was stopped", func() error {
		if err := k.powerOff(ctx, k.r, v, grace); err != nil {
			return err
		}
		k.r.Own.Process = nil
		return k.records().Put(k.r)
	})
}

// keepUp checks a machine that should run or be paused.
func (k *keeping) keepUp(ctx context.Context) error {
	v, err := k.openProcess(k.r)
	if err != nil {
		return err
	}
	if v == nil {
		return k.keepAlive(ctx)
	}
	defer v.release()
	soon, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	now, info, err := v.state(soon)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case v.ended():
		return k.keepAlive(ctx)
	case err != nil: // the process is alive, and killing it could destroy a working machine
		k.drifted(false, "its process %d does not answer: %v", v.pid, err)
		return nil
	case now == stopped:
		return k.keepDown(ctx, v)
	}
	if err := k.rebound(k.r, v.pid); err != nil {
		return err
	}
	if err := k.keepPower(ctx, v, now); err != nil {
		return err
	}
	if err := k.keepDisks(ctx, v, info); err != nil {
		return err
	}
	if err := k.keepSize(ctx, v, info); err != nil {
		return err
	}
	k.keepTaps()
	k.keepAwake(ctx)
	return k.keepCount()
}

// keepDown checks a process whose machine does not run: either the guest turned itself off, or another program shut it
// down.
func (k *keeping) keepDown(ctx context.Context, v *vmm) error {
	own := &k.r.Own
	soon, cancel := context.WithTimeout(ctx, afterwards)
	defer cancel()
	// The process answers requests before it writes its events.
	for k.listen(); soon.Err() == nil && !own.Process.guestIsOff(own.Past.Heard); k.listen() {
		if v.endsWithin(soon, offEvery) { // it has ended, so no event follows
			k.listen()
			break
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if !own.Process.guestIsOff(own.Past.Heard) {
		return k.mend(ctx, "its process had no running machine", func() error { return k.again(ctx) })
	}
	if err := v.end(ctx, k.step); err != nil {
		return err
	}
	return k.keepOff()
}

// keepOff reports a guest that turned itself off and whose process has ended.
func (k *keeping) keepOff() error {
	own := &k.r.Own
	k.drifted(false, "its guest turned itself off; machine.start starts it again")
	if own.Past.Off && own.Process == nil {
		return nil
	}
	own.Past.Off, own.Process = true, nil
	return k.records().Put(k.r)
}

// silenceLimit is the time without a sign of life after which a guest is reported. A kernel that the processor can run
// shows one within a second.
const silenceLimit = 20 * time.Second

// keepAwake reports a guest that shows no activity. A kernel that the processor cannot run spins for minutes before it
// fails.
func (k *keeping) keepAwake(ctx context.Context) {
	own := &k.r.Own
	since := k.clock().Sub(own.Past.Started)
	if own.Power != running || !own.Process.Stays || since < silenceLimit || alive(k.dir, own.Past.Heard) {
		return
	}
	why := ""
	if _, err := checkHardware(ctx); err != nil {
		why = ": KVM of this host: " + err.Error()
	}
	if said := complaint(k.dir); said != "" {
		why += "; the last error of its process is: " + said
	}
	k.drifted(false,
		"its guest has given no sign of life since it was started %s ago, neither on its console nor by using a device%s",
		since.Round(time.Second), why)
}

// alive reports whether the guest showed activity: output on its console or use of a device.
func alive(dir string, h heard) bool {
	info, err := os.Stat(filepath.Join(dir, consoleName))
	return h.Alive || err != nil || info.Size() > 0
}

// keepTaps reports taps that were deleted. A new tap gets the same name, but the process still has the old one open,
// which is disconnected.
func (k *keeping) keepTaps() {
	for _, p := range k.r.Own.Ports {
		has, known := k.r.Own.Taps[p.Device]
		if !known {
			continue // started by a version that did not record the taps
		}
		if tap, err := net.InterfaceByName(p.Device); err == nil && tap.Index == has {
			continue
		}
		k.drifted(false,
			"its tap %s was deleted, so it is disconnected from the network %s; machine.stop and machine.start reconnect it",
			p.Device, p.Network.Name)
	}
}

// keepSize finishes a change of CPUs or memory.
func (k *keeping) keepSize(ctx context.Context, v *vmm, info api.Info) error {
	wanted, err := k.fit(k.r, info)
	switch {
	case err != nil:
		k.drifted(false, "its CPUs or memory differ from the record: %v", err)
		return nil
	case wanted == (api.Resize{}) || k.r.Own.Power != running:
		return nil
	default:
		return k.mend(ctx, "its CPUs or memory differed from the record",
			func() error { return k.resizeLive(ctx, v, wanted) })
	}
}

// keepPower pauses or resumes the machine to match its record.
func (k *keeping) keepPower(ctx context.Context, v *vmm, now power) error {
	switch want := k.r.Own.Power; {
	case now == want:
		return nil
	case want == running:
		return k.mend(ctx, "it was paused", func() error { return k.resumeMachine(ctx, v) })
	default:
		return k.mend(ctx, "it ran although it was paused", func() error {
			k.step("pause the machine")
			return v.ask(ctx, "pause the machine", v.Pause)
		})
	}
}

// keepDisks attaches missing disks, and resizes disks whose volumes have grown.
func (k *keeping) keepDisks(ctx context.Context, v *vmm, info api.Info) error {
	for _, d := range k.r.Own.Volumes {
		if err := k.keepDisk(ctx, v, info, d); err != nil {
			return err
		}
	}
	return nil
}

func (k *keeping) keepDisk(ctx context.Context, v *vmm, info api.Info, d disk) error {
	if !plugs(info, idOf(k.r, d)) {
		return k.mend(ctx, "the volume "+d.Volume.Name+" was not attached", func() error {
			if _, err := k.plug(ctx, k.r, d); err != nil {
				return err
			}
			return k.records().Put(k.r)
		})
	}
	size, err := k.sizeOf(ctx, k.r, d)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		k.drifted(false, "its volume %s has changed: %v", d.Volume.Name, err)
		return nil
	}
	if known := k.r.Own.Sizes[d.Volume.UID]; d.ReadOnly || known == 0 || size <= known {
		return nil
	}
	return k.mend(ctx, "the volume "+d.Volume.Name+" had grown", func() error {
		k.step("resize the disk")
		if err := v.ask(ctx, "resize the disk", func(ctx context.Context) error {
			return v.ResizeDisk(ctx, api.ResizeDisk{ID: idOf(k.r, d), DesiredSize: size})
		}); err != nil {
			return err
		}
		k.r.Own.Sizes[d.Volume.UID] = size
		return k.records().Put(k.r)
	})
}

// keepCount reports reboots by the guest.
func (k *keeping) keepCount() error {
	past := &k.r.Own.Past
	if past.Heard.Reboots <= past.Reboots {
		return nil
	}
	k.drifted(true, "its guest rebooted, %d times since the machine was started", past.Heard.Reboots)
	past.Reboots = past.Heard.Reboots
	return k.records().Put(k.r)
}

// keepAlive restarts a machine without a process, unless it must stay down.
func (k *keeping) keepAlive(ctx context.Context) error {
	own := &k.r.Own
	boot, err := thisBoot()
	if err != nil {
		return sal.HostError("read the host's boot id", err)
	}
	k.listen() // once more: the last events before the end
	rebooted, why := own.Process != nil && own.Process.Boot != boot, k.whyEnded()
	switch {
	case own.Power == paused:
		k.drifted(false,
			"its process has ended, and the memory of the paused machine is lost; machine.start starts it from its disks")
		return nil
	case rebooted:
		own.Past = past{}
		return k.mend(ctx, "the host rebooted", func() error { return k.again(ctx) })
	case own.Past.Off || own.Process.guestIsOff(own.Past.Heard):
		return k.keepOff()
	case k.clock().Before(own.Past.due()):
		k.drifted(false, "its process died again%s; the next start is at %s", why,
			own.Past.due().UTC().Format(time.TimeOnly))
		return nil
	}
	own.Past.again(k.clock())
	what := fmt.Sprintf("its process had died%s; it was restarted (restart %d)", why, own.Past.Restarts)
	return k.mend(ctx, what, func() error { return k.again(ctx) })
}

// whyEnded returns the known reason for the end of the machine's process as a clause that continues a sentence, or "".
func (k *keeping) whyEnded() string {
	said := complaint(k.dir)
	switch {
	case k.starved(k.Resource):
		return ", killed by the kernel at its memory limit"
	case said != "":
		return ", after the error: " + said
	case k.r.Own.Past.Heard.Ended:
		return ", as if on request"
	default:
		return ""
	}
}

// again restarts the machine and keeps its restart counters.
func (k *keeping) again(ctx context.Context) error {
	before := k.r.Own.Past
	err := k.run(ctx, k.r)
	k.r.Own.Past.Restarts, k.r.Own.Past.Quick = before.Restarts, before.Quick
	return errors.Join(err, k.records().Put(k.r))
}

// Orphans returns the processes of machines that match no record, and the directories and cgroups without a record.
func (d *Driver) Orphans(ctx context.Context) ([]sal.Orphan, error) {
	pids, err := withArguments(below(d.machines()))
	if err != nil {
		return nil, sal.HostError("list the processes", err)
	}
	dirs, err := os.ReadDir(d.machines())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, sal.HostError("list the directories of machines", err)
	}
	groups, err := d.groups().All()
	if err != nil {
		return nil, sal.HostError("list the groups of machines", err)
	}
	records, damaged, err := d.records().List() // after listing processes: a record exists before its process does
	if err != nil {
		return nil, err
	}
	for _, r := range records {
		v, err := d.openProcess(r)
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
		its := below(filepath.Join(d.machines(), r.HostName))
		pids = slices.DeleteFunc(pids, func(pid int) bool { return its(argumentsOf(pid)) })
	}
	all := sal.DamagedOrphans(damaged)
	for _, pid := range pids {
		all = append(all, sal.Orphan{
			Kind: "process", Name: strconv.Itoa(pid), Of: d.servedBy(pid),
			Remedy: sal.Command("kill", strconv.Itoa(pid)),
		})
	}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		all = append(all,
			sal.Orphan{Kind: "cgroup", Name: groups[name], Of: name, Remedy: sal.Command("rmdir", groups[name])})
	}
	for _, e := range dirs {
		path := filepath.Join(d.machines(), e.Name())
		all = append(all,
			sal.Orphan{Kind: "directory", Name: path, Of: e.Name(), Remedy: sal.Command("rm", "-r", path)})
	}
	return all, ctx.Err()
}

// servedBy returns the host name of the machine whose files are among the arguments of a process, or "".
func (d *Driver) servedBy(pid int) string {
	dir := filepath.Clean(d.machines()) + string(filepath.Separator)
	for _, argument := range argumentsOf(pid) {
		if _, path, found := strings.Cut(argument, dir); found {
			name, _, _ := strings.Cut(path, string(filepath.Separator))
			return name
		}
	}
	return ""
}

// Usage returns the CPUs and memory of a machine while it runs, the bytes that its interfaces have transferred since
// its start, and the size of its snapshots. Its disks count towards its volumes.
func (d *Driver) Usage(ctx context.Context, resource writ.ResourceID) (sal.Usage, error) {
	r, err := d.records().Get(resource)
	if err != nil || r == nil {
		return sal.Usage{}, err
	}
	u := sal.Usage{DiskGiB: r.Own.diskGiB()}
	v, err := d.openProcess(r)
	if err != nil || v == nil {
		return u, err
	}
	defer v.release()
	u.CPUs, u.MemoryMiB = r.Own.CPUs, r.Own.MemoryMiB
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

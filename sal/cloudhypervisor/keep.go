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

// past is what became of a machine since somebody asked for what it does.
type past struct {
	Started  time.Time `json:"started,omitzero"`
	Restarts int       `json:"restarts,omitempty"` // by us, after its process had died
	Quick    int       `json:"quick,omitempty"`    // of these, how many in a row were soon after the one before
	Off      bool      `json:"off,omitempty"`      // the guest turned itself off; nobody starts it again unasked
	Reboots  int       `json:"reboots,omitempty"`  // of the guest by itself, that were told
	Heard    heard     `json:"heard,omitzero"`     // of the process that is there
}

// began notes that the process was started.
func (p *past) began(now time.Time) {
	p.Started, p.Off, p.Reboots, p.Heard = now, false, 0, heard{}
}

// A machine that ran for steady before its process died is started again at once. The pauses of one that dies sooner double, from shortest
// to longest.
const (
	steady   = 10 * time.Minute
	shortest = 10 * time.Second
	longest  = 10 * time.Minute
)

// due is when a machine may be started again.
func (p *past) due() time.Time {
	if p.Quick == 0 {
		return p.Started
	}
	return p.Started.Add(min(longest, shortest<<min(p.Quick, 10)))
}

// again notes that the process is started again.
func (p *past) again(now time.Time) {
	if now.Sub(p.Started) >= steady {
		p.Quick = 0
	}
	p.Quick++
	p.Restarts++
	p.began(now)
}

// Keep holds a machine against its record: what should run is started if its process died or the host was started anew, what was
// interrupted is finished. A guest that turned itself off stays off, and a machine that was paused when its process died has lost its
// memory; both are reported until somebody starts, stops or deletes it.
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
		k.found(true, "putting it back to a snapshot was interrupted")
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
		k.found(false, "its console or log cannot be cut off: %v", trimmed)
	}
	return k.drift, err
}

// listen reads on what the process has said.
func (k *keeping) listen() {
	if err := k.hear(); err != nil {
		k.found(false, "what its process says of itself cannot be read: %v", err)
	}
}

// keeping is one look at one machine.
type keeping struct {
	*job
	r     *sal.Record[own]
	drift []sal.Drift
}

func (k *keeping) found(mended bool, format string, args ...any) {
	k.drift = append(k.drift, sal.Drift{What: fmt.Sprintf(format, args...), Mended: mended})
}

// mend does something about what was found, and says whether it helped. A context that ended is an error, anything else a drift.
func (k *keeping) mend(ctx context.Context, what string, do func() error) error {
	err := do()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		k.found(false, "%s, and it could not be mended: %v", what, err)
		return nil
	}
	k.found(true, "%s", what)
	return nil
}

// keepStopped finishes a stop.
func (k *keeping) keepStopped(ctx context.Context) error {
	v, err := k.attend(k.r)
	if err != nil || v == nil && k.r.Own.Process == nil {
		return err
	}
	if v == nil {
		k.r.Own.Process = nil
		return k.records().Put(k.r)
	}
	defer v.release()
	const grace = 30 * time.Second // as machine.stop has it
	return k.mend(ctx, "its process ran although it was stopped", func() error {
		if err := k.powerOff(ctx, k.r, v, grace); err != nil {
			return err
		}
		k.r.Own.Process = nil
		return k.records().Put(k.r)
	})
}

// keepUp looks at a machine that should run or be paused.
func (k *keeping) keepUp(ctx context.Context) error {
	v, err := k.attend(k.r)
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
	case err != nil: // it is alive: whoever killed it now might kill a machine that works
		k.found(false, "its process %d does not answer: %v", v.pid, err)
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

// keepDown looks at a process in which no machine runs: its guest turned itself off, or somebody else did that.
func (k *keeping) keepDown(ctx context.Context, v *vmm) error {
	own := &k.r.Own
	soon, cancel := context.WithTimeout(ctx, afterwards)
	defer cancel()
	for k.listen(); soon.Err() == nil && !own.Process.guestIsOff(own.Past.Heard); k.listen() { // it answers before it has told what happened
		if v.endsWithin(soon, offEvery) { // it says no more than it has
			k.listen()
			break
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if !own.Process.guestIsOff(own.Past.Heard) {
		return k.mend(ctx, "its process had no machine in it", func() error { return k.again(ctx) })
	}
	if err := v.end(ctx, k.step); err != nil {
		return err
	}
	return k.keepOff()
}

// keepOff tells of a guest that turned itself off, whose process has ended.
func (k *keeping) keepOff() error {
	own := &k.r.Own
	k.found(false, "its guest turned itself off; machine.start starts it again")
	if own.Past.Off && own.Process == nil {
		return nil
	}
	own.Past.Off, own.Process = true, nil
	return k.records().Put(k.r)
}

// asleep is for how long a guest may give no sign of life before that is told. A kernel that can be carried out gives one within a second.
const asleep = 20 * time.Second

// keepAwake tells of a guest that does nothing to be seen: a kernel that the processor cannot carry out keeps it busy for minutes before it
// fails.
func (k *keeping) keepAwake(ctx context.Context) {
	own := &k.r.Own
	since := k.clock().Sub(own.Past.Started)
	if own.Power != running || !own.Process.Stays || since < asleep || alive(k.dir, own.Past.Heard) {
		return
	}
	why := ""
	if _, err := lookHardware(ctx); err != nil {
		why = ": KVM of this host: " + err.Error()
	}
	if said := complaint(k.dir); said != "" {
		why += "; its process has said: " + said
	}
	k.found(false, "its guest has given no sign of life since it was started %s ago, neither on its console nor by using a device%s",
		since.Round(time.Second), why)
}

// alive reports whether the guest of a process that has said something has been seen.
func alive(dir string, h heard) bool {
	info, err := os.Stat(filepath.Join(dir, consoleName))
	return h.Alive || err != nil || info.Size() > 0
}

// keepTaps tells of taps that somebody took away. Whoever makes them anew gives them the same name, but the process has the old one open, which
// leads nowhere.
func (k *keeping) keepTaps() {
	for _, p := range k.r.Own.Ports {
		has, known := k.r.Own.Taps[p.Device]
		if !known {
			continue // it was started before this was noted
		}
		if tap, err := net.InterfaceByName(p.Device); err == nil && tap.Index == has {
			continue
		}
		k.found(false, "its tap %s was deleted, and it is off the network %s; machine.stop and machine.start connect it again", p.Device, p.Network.Name)
	}
}

// keepSize finishes a change of CPUs or memory.
func (k *keeping) keepSize(ctx context.Context, v *vmm, info api.Info) error {
	wanted, err := k.fit(k.r, info)
	switch {
	case err != nil:
		k.found(false, "it has other CPUs or memory than it should: %v", err)
		return nil
	case wanted == (api.Resize{}) || k.r.Own.Power != running:
		return nil
	default:
		return k.mend(ctx, "it had other CPUs or memory than it should", func() error { return k.tell(ctx, v, wanted) })
	}
}

// keepPower pauses or resumes.
func (k *keeping) keepPower(ctx context.Context, v *vmm, now power) error {
	switch want := k.r.Own.Power; {
	case now == want:
		return nil
	case want == running:
		return k.mend(ctx, "it was paused", func() error { return k.goOn(ctx, v) })
	default:
		return k.mend(ctx, "it ran although it was paused", func() error {
			k.step("pause the machine")
			return v.ask(ctx, "pause the machine", v.Pause)
		})
	}
}

// keepDisks plugs in what is missing, and tells the guest of volumes that have grown.
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
		return k.mend(ctx, "the volume "+d.Volume.Name+" was not plugged in", func() error {
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
		k.found(false, "its volume %s is not as it was: %v", d.Volume.Name, err)
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

// keepCount tells of guests that started themselves anew.
func (k *keeping) keepCount() error {
	past := &k.r.Own.Past
	if past.Heard.Reboots <= past.Reboots {
		return nil
	}
	k.found(true, "its guest started itself anew, %d times since the machine was started", past.Heard.Reboots)
	past.Reboots = past.Heard.Reboots
	return k.records().Put(k.r)
}

// keepAlive looks at a machine without a process.
func (k *keeping) keepAlive(ctx context.Context) error {
	own := &k.r.Own
	boot, err := thisBoot()
	if err != nil {
		return sal.HostError("read the host's boot id", err)
	}
	k.listen() // once more: what it said before it ended
	rebooted, why := own.Process != nil && own.Process.Boot != boot, k.whyEnded()
	switch {
	case own.Power == paused:
		k.found(false, "its process has ended, and the memory of the paused machine is lost; machine.start starts it from its disks")
		return nil
	case rebooted:
		own.Past = past{}
		return k.mend(ctx, "the host was started anew", func() error { return k.again(ctx) })
	case own.Past.Off || own.Process.guestIsOff(own.Past.Heard):
		return k.keepOff()
	case k.clock().Before(own.Past.due()):
		k.found(false, "its process died again%s; it is started at %s", why, own.Past.due().UTC().Format(time.TimeOnly))
		return nil
	}
	own.Past.again(k.clock())
	what := fmt.Sprintf("its process had died%s; it was started again, the %d. time", why, own.Past.Restarts)
	return k.mend(ctx, what, func() error { return k.again(ctx) })
}

// whyEnded says what is known of why the process of a machine has ended, as a part of a sentence.
func (k *keeping) whyEnded() string {
	said := complaint(k.dir)
	switch {
	case k.starved(k.Resource):
		return ", killed by the kernel as it took more memory than it may"
	case said != "":
		return ", after it had said: " + said
	case k.r.Own.Past.Heard.Ended:
		return ", as if it was told to"
	default:
		return ""
	}
}

// again starts the machine.
func (k *keeping) again(ctx context.Context) error {
	before := k.r.Own.Past
	err := k.run(ctx, k.r)
	k.r.Own.Past.Restarts, k.r.Own.Past.Quick = before.Restarts, before.Quick
	return errors.Join(err, k.records().Put(k.r))
}

// Orphans are processes that were started for a machine and are no machine's, and directories and groups of machines that have no record.
func (d *Driver) Orphans(ctx context.Context) ([]sal.Orphan, error) {
	pids, err := withArguments(below(d.machines()))
	if err != nil {
		return nil, sal.HostError("look at the processes", err)
	}
	dirs, err := os.ReadDir(d.machines())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, sal.HostError("list the directories of machines", err)
	}
	groups, err := d.groups().All()
	if err != nil {
		return nil, sal.HostError("list the groups of machines", err)
	}
	records, damaged, err := d.records().List() // after the processes: a record is there before its process is
	if err != nil {
		return nil, err
	}
	for _, r := range records {
		v, err := d.attend(r)
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
		all = append(all, sal.Orphan{Kind: "process", Name: strconv.Itoa(pid), Of: d.servedBy(pid), Remedy: sal.Command("kill", strconv.Itoa(pid))})
	}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		all = append(all, sal.Orphan{Kind: "cgroup", Name: groups[name], Of: name, Remedy: sal.Command("rmdir", groups[name])})
	}
	for _, e := range dirs {
		path := filepath.Join(d.machines(), e.Name())
		all = append(all, sal.Orphan{Kind: "directory", Name: path, Of: e.Name(), Remedy: sal.Command("rm", "-r", path)})
	}
	return all, ctx.Err()
}

// servedBy is the host name of the machine whose files a process has among its arguments, "" if there is none.
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

// Usage returns the CPUs and memory of a machine while it runs, the bytes that its interfaces have moved since it was started, and the
// size of its snapshots. Its disks count for its volumes.
func (d *Driver) Usage(ctx context.Context, resource writ.ResourceID) (sal.Usage, error) {
	r, err := d.records().Get(resource)
	if err != nil || r == nil {
		return sal.Usage{}, err
	}
	u := sal.Usage{DiskGiB: r.Own.diskGiB()}
	v, err := d.attend(r)
	if err != nil || v == nil {
		return u, err
	}
	defer v.release()
	u.CPUs, u.MemoryMiB = r.Own.CPUs, r.Own.MemoryMiB
	soon, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	counters, err := v.Counters(soon)
	if _, none := errors.AsType[*api.Refusal](err); none {
		return u, nil // it does not run yet
	}
	if err != nil { // counters of zero would say that counting began anew, and count all again the next time
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

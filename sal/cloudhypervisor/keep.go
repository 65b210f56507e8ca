package cloudhypervisor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"writ"
	"writ/sal"
)

// past is the history of a machine since it was last stopped or restored, or the host rebooted.
type past struct {
	Started  time.Time `json:"started,omitzero"`
	Restarts int       `json:"restarts,omitempty"` // by the driver, after the process died
	Quick    int       `json:"quick,omitempty"`    // consecutive restarts, each within steady of the previous start
	Off      bool      `json:"off,omitempty"`      // the guest turned itself off; only an operation starts it again
	Reboots  int       `json:"reboots,omitempty"`  // reboots by the guest that Keep has reported
	Heard    heard     `json:"heard,omitzero"`     // events of the current process
}

// began resets the history at the start of a process, except for the restart counters.
func (p *past) began(now time.Time) {
	p.Started, p.Off, p.Reboots, p.Heard = now, false, 0, heard{}
}

// A machine that ran for at least steady before its process died is restarted at once. Otherwise the time between two
// starts is at least shortest, doubled for each restart in Quick, but at most longest.
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
		return k.drifts, err
	}
	if r.Own.Power == stopped {
		err := k.keepStopped(ctx)
		return k.drifts, err
	}
	k.listen()
	err = k.keepUp(ctx)
	if trimmed := trim(j.dir, j.step); trimmed != nil {
		k.drifted(false, "its console or log cannot be trimmed: %v", trimmed)
	}
	return k.drifts, err
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
	drifts
	r *sal.Record[own]
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
	if err := (&alignment{k, v, info}).align(ctx, now); err != nil {
		return err
	}
	return k.keepCount()
}

// keepDown checks a process whose machine does not run: either the guest turned itself off, or another program shut the
// machine down. A machine that should be paused has lost its memory and is not started.
func (k *keeping) keepDown(ctx context.Context, v *vmm) error {
	own := &k.r.Own
	if own.Power == paused {
		if err := v.end(ctx, k.step); err != nil {
			return err
		}
		return k.keepAlive(ctx)
	}
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

// keepAlive restarts a machine without a process. It does not restart a machine that was paused, whose guest turned
// itself off, or whose next restart is not due.
func (k *keeping) keepAlive(ctx context.Context) error {
	own := &k.r.Own
	boot, err := thisBoot()
	if err != nil {
		return sal.HostError("read the host's boot id", err)
	}
	k.listen() // again, for the last events before the process ended
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
	case outOfMemory(k.groups(), k.Resource.HostName()):
		return ", killed by the kernel at its memory limit"
	case said != "":
		return ", after the error: " + said
	case k.r.Own.Past.Heard.Ended:
		return ", after a normal shutdown"
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

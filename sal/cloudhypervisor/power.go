package cloudhypervisor

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"writ"
	"writ/internal/sleep"
	"writ/sal"
	"writ/sal/catalog"
	"writ/sal/cloudhypervisor/api"
)

// now returns the power state of the machine. It waits for an answer of the process until ctx ends.
func (j *job) now(ctx context.Context, r *sal.Record[own]) (power, error) {
	v, _, err := j.live(ctx, r)
	if err != nil || v == nil {
		return stopped, err
	}
	defer v.release()
	now, _, err := v.state(ctx)
	return now, err
}

func (j *job) start(ctx context.Context, r *sal.Record[own]) (sal.Outcome, error) {
	now, err := j.now(ctx, r)
	if err != nil {
		return sal.Outcome{}, err
	}
	switch {
	case now == paused && r.Own.Power == paused:
		return sal.Outcome{}, j.refuse(now, "resume it with machine.resume")
	case now == running && r.Own.Power == running:
		return j.outcome(ctx, r, writ.ChangeUnchanged)
	}
	before := r.Own.Power
	if err := j.run(ctx, r); err != nil {
		if ctx.Err() == nil {
			r.Own.Power = before // the start failed, and must not be retried without a new request
			err = errors.Join(err, j.records().Put(r))
		}
		return sal.Outcome{}, err
	}
	return j.updated(ctx, r)
}

// run starts the machine, or resumes it if an interrupted snapshot left it paused. At a start, launch records the new
// power state before the process exists; the caller writes the record afterwards, with the PID of the process.
func (j *job) run(ctx context.Context, r *sal.Record[own]) error {
	r.Own.Power = running
	v, _, err := j.live(ctx, r)
	if err != nil {
		return err
	}
	if v != nil { // paused by an interrupted snapshot
		defer v.release()
		return j.resumeMachine(ctx, v)
	}
	if err := j.endProcess(ctx, r); err != nil { // a process without a machine
		return err
	}
	r.Own.Process = nil
	if err := j.bringUp(ctx, r, nil, j.boot); err != nil {
		r.Own.Process = nil
		return err
	}
	r.Own.Past.began(j.clock())
	return nil
}

// resumeMachine resumes a paused machine.
func (j *job) resumeMachine(ctx context.Context, v *vmm) error {
	if now, _, err := v.state(ctx); err != nil || now == running {
		return err
	}
	j.step("resume the machine")
	if err := v.ask(ctx, "resume the machine", v.Resume); err != nil && j.requireState(ctx, v, running) != nil {
		return err
	}
	return nil
}

func (j *job) pause(ctx context.Context, r *sal.Record[own]) (sal.Outcome, error) {
	return j.switchTo(ctx, r, paused, func(v *vmm) error {
		j.step("pause the machine")
		return v.ask(ctx, "pause the machine", v.Pause)
	})
}

func (j *job) resume(ctx context.Context, r *sal.Record[own]) (sal.Outcome, error) {
	return j.switchTo(ctx, r, running, func(v *vmm) error { return j.resumeMachine(ctx, v) })
}

// switchTo pauses or resumes a machine. An error of the process is ignored if the machine then has the power state
// `want`.
func (j *job) switchTo(
	ctx context.Context, r *sal.Record[own], want power, do func(v *vmm) error,
) (sal.Outcome, error) {
	v, _, err := j.live(ctx, r)
	if err != nil {
		return sal.Outcome{}, err
	}
	if v == nil {
		return sal.Outcome{}, j.refuse(stopped, "start it with machine.start")
	}
	defer v.release()
	now, _, err := v.state(ctx)
	if err != nil {
		return sal.Outcome{}, err
	}
	if now == want && r.Own.Power == want {
		return j.outcome(ctx, r, writ.ChangeUnchanged)
	}
	before := r.Own.Power
	r.Own.Power = want
	if err := j.records().Put(r); err != nil {
		return sal.Outcome{}, err
	}
	if now != want {
		err = do(v)
	}
	if err != nil && ctx.Err() == nil && j.requireState(ctx, v, want) == nil {
		err = nil
	}
	if err != nil {
		if ctx.Err() == nil {
			r.Own.Power = before
			err = errors.Join(err, j.records().Put(r))
		}
		return sal.Outcome{}, err
	}
	return j.updated(ctx, r)
}

func (j *job) stop(ctx context.Context, r *sal.Record[own], grace time.Duration) (sal.Outcome, error) {
	v, err := j.openProcess(r)
	if err != nil {
		return sal.Outcome{}, err
	}
	if v == nil && r.Own.Power == stopped && r.Own.Process == nil {
		return j.outcome(ctx, r, writ.ChangeUnchanged)
	}
	defer v.release()
	if r.Own.Power != stopped { // otherwise an interrupted call may have recorded how the guest ended
		r.Own.Power, r.Own.Ended = stopped, ""
	}
	if v != nil {
		r.Own.Ended = cmp.Or(r.Own.Ended, catalog.EndedByItself)
	}
	if err := j.records().Put(r); err != nil {
		return sal.Outcome{}, err
	}
	if v != nil {
		if err := j.powerOff(ctx, r, v, grace); err != nil {
			return sal.Outcome{}, err
		}
	}
	r.Own.Process = nil
	r.Own.Past = past{}
	return j.updated(ctx, r)
}

// pressEvery is the interval between presses of the power button. A guest that is still booting misses a press.
const pressEvery = 3 * time.Second

// powerOff presses the power button until the guest shuts down or grace is over, then ends the process. Before it cuts
// off a guest, it records the forced end, so that a repeated call reports the same.
func (j *job) powerOff(ctx context.Context, r *sal.Record[own], v *vmm, grace time.Duration) error {
	until, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	for until.Err() == nil && !v.ended() {
		now, _, err := v.state(until)
		if err == nil && now == stopped {
			break // no guest is running that could react
		}
		if err == nil && now == paused {
			_ = j.resumeMachine(until, v) // a paused guest cannot react either
		}
		j.step("press the power button")
		// an error is ignored because the loop presses again
		_ = v.ask(until, "press the power button", v.PressPowerButton)
		soon, cancel := context.WithTimeout(until, pressEvery)
		v.waitOff(soon)
		cancel()
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if v.ended() {
		return nil
	}
	if now, _, err := v.state(ctx); err != nil || now != stopped {
		r.Own.Ended = catalog.EndedByForce
		if err := j.records().Put(r); err != nil {
			return err
		}
		if grace > 0 {
			j.Progress("the guest did not shut down in time and is cut off")
		}
	}
	return v.end(ctx, j.step)
}

// offEvery is the poll interval for a guest that turns itself off.
const offEvery = 20 * time.Millisecond

// waitOff returns when the guest has turned itself off, the process has ended, or ctx has ended.
func (v *vmm) waitOff(ctx context.Context) {
	for ctx.Err() == nil {
		if now, _, err := v.state(ctx); err == nil && now == stopped {
			return
		}
		if v.endsWithin(ctx, offEvery) {
			return
		}
	}
}

// endsWithin waits at most d and reports whether the process has ended.
func (v *vmm) endsWithin(ctx context.Context, d time.Duration) bool {
	ctx, stop := context.WithTimeout(ctx, d)
	defer stop()
	return v.wait(ctx) == nil
}

// update applies the changed arguments of machine.create: only CPUs and memory can change.
func (j *job) update(ctx context.Context, r *sal.Record[own], fields []string) error {
	args := j.Args.(*catalog.MachineCreate)
	var to catalog.MachineResize
	if slices.Contains(fields, "cpus") {
		to.CPUs = args.CPUs
	}
	if slices.Contains(fields, "memory_mib") {
		to.MemoryMiB = args.MemoryMiB
	}
	if _, err := j.setSize(ctx, r, to); err != nil {
		return err
	}
	r.Spec = catalog.Values(args) // last, so that a call repeated after a crash still finds a difference to the spec
	r.Generation++
	return j.records().Put(r)
}

func (j *job) resize(ctx context.Context, r *sal.Record[own], to *catalog.MachineResize) (sal.Outcome, error) {
	changed, err := j.setSize(ctx, r, *to)
	if err != nil {
		return sal.Outcome{}, err
	}
	if !changed {
		return j.outcome(ctx, r, writ.ChangeUnchanged)
	}
	return j.updated(ctx, r)
}

// setSize sets the CPUs and memory of the machine, at once if it runs. It returns an error if a running machine cannot
// change to this size.
func (j *job) setSize(ctx context.Context, r *sal.Record[own], to catalog.MachineResize) (changed bool, err error) {
	cpus, memory := r.Own.CPUs, r.Own.MemoryMiB
	if to.CPUs != 0 {
		r.Own.CPUs = to.CPUs
	}
	if to.MemoryMiB != 0 {
		r.Own.MemoryMiB = to.MemoryMiB
	}
	changed = cpus != r.Own.CPUs || memory != r.Own.MemoryMiB
	undo := func(err error) (bool, error) {
		r.Own.CPUs, r.Own.MemoryMiB = cpus, memory
		return false, err
	}
	v, info, err := j.live(ctx, r)
	if err != nil {
		return undo(err)
	}
	if v == nil {
		return changed, nil // applies at the next start
	}
	defer v.release()
	wanted, err := j.fit(r, info)
	if err != nil {
		return undo(err)
	}
	if wanted == (api.Resize{}) {
		return changed, nil
	}
	switch now, _, err := v.state(ctx); {
	case err != nil:
		return undo(err)
	case now == paused:
		return undo(j.refuse(paused, "resume it with machine.resume, then change its size"))
	}
	if err := j.records().Put(r); err != nil {
		return undo(err)
	}
	err = j.bound(r) // before the guest can use more
	if err == nil {
		err = j.resizeLive(ctx, v, wanted)
	}
	if err != nil && ctx.Err() == nil {
		_, _ = undo(nil)
		err = errors.Join(err, j.adoptSize(ctx, r, v), j.bound(r), j.records().Put(r))
	}
	return err == nil, err
}

// adoptSize records the actual size of the machine after a change that failed halfway, because CPUs and memory of a
// guest cannot always be taken back.
func (j *job) adoptSize(ctx context.Context, r *sal.Record[own], v *vmm) error {
	now, info, err := v.state(ctx)
	if err != nil || now == stopped {
		return err
	}
	r.Own.CPUs = info.Config.CPUs.BootVcpus
	if memory := info.Config.Memory; memory.Size > 0 {
		r.Own.MemoryMiB = (memory.Size + memory.HotpluggedSize) >> 20
	}
	return nil
}

// cpuReleaseLimit limits how long a guest may take to release CPUs of an earlier change before another change fails.
// cpuReleasePoll is the poll interval.
const (
	cpuReleaseLimit = 10 * time.Second
	cpuReleasePoll  = 50 * time.Millisecond
)

// resizeLive resizes a running machine: memory first, because it is refused more often, then CPUs. Each request
// succeeds or fails as a whole.
func (j *job) resizeLive(ctx context.Context, v *vmm, wanted api.Resize) error {
	for _, part := range []api.Resize{{DesiredRAM: wanted.DesiredRAM}, {DesiredVcpus: wanted.DesiredVcpus}} {
		if part == (api.Resize{}) {
			continue
		}
		j.step("resize the machine")
		if err := j.resizePart(ctx, v, part); err != nil {
			return err
		}
	}
	return nil
}

func (j *job) resizePart(ctx context.Context, v *vmm, part api.Resize) error {
	waiting, stop := context.WithTimeout(ctx, cmp.Or(j.guestTime, cpuReleaseLimit))
	defer stop()
	for {
		err := v.ask(ctx, "resize the machine", func(ctx context.Context) error { return v.Resize(ctx, part) })
		refusal, refused := errors.AsType[*api.Refusal](err)
		switch {
		case !refused:
			return err
		case full(refusal):
			return writ.Errorf(writ.CodeResourceConflict, "%s cannot get more memory while it runs: %w", j.Resource,
				refusal).
				WithHint("stop it, change it, and start it: a running machine can get more memory at most eight times")
		case !refusal.Pending():
			return err
		}
		if sleep.For(waiting, cpuReleasePoll) == nil {
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return writ.Errorf(writ.CodeResourceBusy, "the guest of %s has not released the CPUs of an earlier change yet",
			j.Resource).
			WithHint("try again later, or stop it, change it, and start it")
	}
}

// full reports whether a refusal means that a running machine cannot take more memory.
func full(refusal *api.Refusal) bool {
	return slices.ContainsFunc(refusal.Causes, func(cause string) bool {
		return strings.Contains(cause, "No ACPI slot") ||
			strings.Contains(cause, "Not enough space in the hotplug RAM region")
	})
}

// fit returns the resize request that makes a running machine match its record. It is empty if the machine matches. fit
// returns RESOURCE_CONFLICT if only a stopped machine can change to this size.
func (j *job) fit(r *sal.Record[own], info api.Info) (wanted api.Resize, err error) {
	if has := info.Config.CPUs; has.BootVcpus != r.Own.CPUs {
		if r.Own.CPUs > has.MaxVcpus {
			return wanted, writ.Errorf(writ.CodeResourceConflict, "%s can have %d CPUs while it runs, not %d",
				j.Resource, has.MaxVcpus, r.Own.CPUs).
				WithHint("stop it, change it, and start it")
		}
		wanted.DesiredVcpus = r.Own.CPUs
	}
	memory := info.Config.Memory
	has, want := memory.Size+memory.HotpluggedSize, r.Own.MemoryMiB<<20
	if has == want {
		return wanted, nil
	}
	if want < has || want > has+memory.HotplugSize || (want-has)%(hotplugStep<<20) != 0 {
		return wanted, writ.Errorf(writ.CodeResourceConflict,
			"%s has %d MiB and cannot have %d while it runs: memory is added in steps of %d MiB, up to %d MiB more",
			j.Resource, has>>20, r.Own.MemoryMiB, hotplugStep, memory.HotplugSize>>20).
			WithHint("stop it, change it, and start it")
	}
	wanted.DesiredRAM = want
	return wanted, nil
}

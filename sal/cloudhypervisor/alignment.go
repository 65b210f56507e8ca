package cloudhypervisor

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"writ/sal"
	"writ/sal/cloudhypervisor/api"
)

// drifts are the differences between a machine and its record that Keep reports.
type drifts []sal.Drift

func (d *drifts) drifted(mended bool, format string, args ...any) {
	*d = append(*d, sal.Drift{What: fmt.Sprintf(format, args...), Mended: mended})
}

// mend calls `do` to repair a drift and reports the result. It returns an error only if ctx has ended; any other
// failure becomes part of the drift.
func (d *drifts) mend(ctx context.Context, what string, do func() error) error {
	err := do()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		d.drifted(false, "%s, and the repair failed: %v", what, err)
		return nil
	}
	d.drifted(true, "%s", what)
	return nil
}

// alignment makes a running process match the record of its machine.
type alignment struct {
	*keeping
	v    *vmm
	info api.Info // of the process
}

// align reports and repairs the differences between the process and the record.
func (a *alignment) align(ctx context.Context, now power) error {
	if err := a.rebound(a.r, a.v.pid); err != nil {
		return err
	}
	if err := a.keepPower(ctx, now); err != nil {
		return err
	}
	if err := a.keepDisks(ctx); err != nil {
		return err
	}
	if err := a.keepSize(ctx); err != nil {
		return err
	}
	a.keepTaps()
	a.keepAwake(ctx)
	return nil
}

// silenceLimit is the time without a sign of life after which a guest is reported. A kernel that the processor can run
// shows a sign of life within a second.
const silenceLimit = 20 * time.Second

// keepAwake reports a guest that shows no activity. A kernel that the processor cannot run spins for minutes before it
// fails.
func (a *alignment) keepAwake(ctx context.Context) {
	own := &a.r.Own
	since := a.clock().Sub(own.Past.Started)
	if own.Power != running || !own.Process.Stays || since < silenceLimit || alive(a.dir, own.Past.Heard) {
		return
	}
	why := ""
	if _, err := checkHardware(ctx); err != nil {
		why = ": KVM of this host: " + err.Error()
	}
	if said := complaint(a.dir); said != "" {
		why += "; the last error of its process is: " + said
	}
	a.drifted(false,
		"its guest has given no sign of life since it was started %s ago, neither on its console nor by using a device%s",
		since.Round(time.Second), why)
}

// alive reports whether the guest showed activity: output on its console or use of a device.
func alive(dir string, h heard) bool {
	info, err := os.Stat(filepath.Join(dir, consoleName))
	return h.Alive || err != nil || info.Size() > 0
}

// keepTaps reports taps that were deleted. A new tap may have the same name, but the process still uses the old tap,
// which is disconnected.
func (a *alignment) keepTaps() {
	for _, p := range a.r.Own.Ports {
		has, known := a.r.Own.Taps[p.Device]
		if !known {
			continue // started by a version that did not record the taps
		}
		if tap, err := net.InterfaceByName(p.Device); err == nil && tap.Index == has {
			continue
		}
		a.drifted(false,
			"its tap %s was deleted, so it is disconnected from the network %s; machine.stop and machine.start reconnect it",
			p.Device, p.Network.Name)
	}
}

// keepSize finishes a change of CPUs or memory.
func (a *alignment) keepSize(ctx context.Context) error {
	wanted, err := a.fit(a.r, a.info)
	switch {
	case err != nil:
		a.drifted(false, "its CPUs or memory differ from the record: %v", err)
		return nil
	case wanted == (api.Resize{}) || a.r.Own.Power != running:
		return nil
	default:
		return a.mend(ctx, "its CPUs or memory differed from the record",
			func() error { return a.resizeLive(ctx, a.v, wanted) })
	}
}

// keepPower pauses or resumes the machine to match its record.
func (a *alignment) keepPower(ctx context.Context, now power) error {
	switch want := a.r.Own.Power; {
	case now == want:
		return nil
	case want == running:
		return a.mend(ctx, "it was paused", func() error { return a.resumeMachine(ctx, a.v) })
	default:
		return a.mend(ctx, "it ran although it was paused", func() error {
			a.step("pause the machine")
			return a.v.ask(ctx, "pause the machine", a.v.Pause)
		})
	}
}

// keepDisks attaches missing disks, and resizes disks whose volumes have grown.
func (a *alignment) keepDisks(ctx context.Context) error {
	for _, d := range a.r.Own.Volumes {
		if err := a.keepDisk(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

func (a *alignment) keepDisk(ctx context.Context, d disk) error {
	if !plugs(a.info, idOf(a.r, d)) {
		return a.mend(ctx, "the volume "+d.Volume.Name+" was not attached", func() error {
			if _, err := a.plug(ctx, a.r, d); err != nil {
				return err
			}
			return a.records().Put(a.r)
		})
	}
	size, err := a.sizeOf(ctx, a.r, d)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		a.drifted(false, "its volume %s has changed: %v", d.Volume.Name, err)
		return nil
	}
	if known := a.r.Own.Sizes[d.Volume.UID]; d.ReadOnly || known == 0 || size <= known {
		return nil
	}
	return a.mend(ctx, "the volume "+d.Volume.Name+" had grown", func() error {
		a.step("resize the disk")
		if err := a.v.ask(ctx, "resize the disk", func(ctx context.Context) error {
			return a.v.ResizeDisk(ctx, api.ResizeDisk{ID: idOf(a.r, d), DesiredSize: size})
		}); err != nil {
			return err
		}
		a.r.Own.Sizes[d.Volume.UID] = size
		return a.records().Put(a.r)
	})
}

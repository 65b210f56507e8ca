// Package vmm simulates cloud-hypervisor v53 or v54 for tests. It implements that program's API with its quirks, holds
// files, locks and taps in the same way, writes the same events and exits with the same codes, so that a driver cannot
// detect the difference. It is NOT a hypervisor: the guest is a simulation that reacts to its power button, or, on
// request, a real guest in QEMU. The package follows the source and the measured behaviour of the real program, and
// must not know writ.
package vmm

import (
	"fmt"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"
)

// Release is a version of the real program.
type Release int

// Simulated releases.
const (
	V53 Release = 53
	V54 Release = 54
)

// String returns the version as --version prints it, such as "v53.0".
func (r Release) String() string { return fmt.Sprintf("v%d.0", int(r)) }

func (r Release) number() string { return fmt.Sprintf("%d.0.0", int(r)) }

// States in vm.info. After vm.shutdown the state is Created again.
const (
	stateCreated = "Created"
	stateRunning = "Running"
	statePaused  = "Paused"
)

// vmm represents the single working thread of the real program as a lock. The holder acts; all other requests wait,
// including pings.
type vmm struct {
	release    Release
	log        *slog.Logger
	events     *monitor
	settings   func() Settings
	noShutdown bool
	reports    reports       // actions of guests
	over       chan struct{} // closed when the process has to end

	thread  sync.Mutex
	config  *vmConfig // nil until vm.create
	console consoles
	vm      *machine // nil unless booted
	ended   bool
}

// boot validates, builds and starts the machine. If it fails, the configuration stays.
func (v *vmm) boot() error {
	if v.vm != nil {
		return errAlreadyCreated
	}
	v.events.tell("vm", "booting")
	if v.config == nil {
		return errMissingConfig
	}
	if err := v.start(""); err != nil {
		return err
	}
	v.vm.state = stateRunning
	v.events.tell("vm", "booted")
	v.afterBoot()
	return nil
}

// start makes a machine from the configuration. If memory is not empty, it is the file with the saved memory of the
// guest.
func (v *vmm) start(memory string) error {
	if err := v.console.open(v.config); err != nil {
		return err
	}
	if err := v.config.validate(v.release); err != nil {
		return err
	}
	vm, err := newMachine(v, memory)
	if err != nil {
		return err
	}
	v.vm = vm
	return vm.fault
}

// afterBoot makes a simulated guest execute the action of the settings, once.
func (v *vmm) afterBoot() {
	act := v.settings().AfterBoot
	if act == "" {
		return
	}
	v.log.Info("the guest acts because of the settings", "act", act)
	v.reports.add(guestEvent{guest: v.vm.guest, what: act})
}

// shutdown cuts the power; the configuration stays and can be booted again.
func (v *vmm) shutdown() error {
	if v.vm == nil {
		return errNotRunning
	}
	v.stop()
	v.events.tell("vm", "shutdown")
	return nil
}

func (v *vmm) stop() {
	vm := v.vm
	v.vm = nil
	v.console.close()
	vm.close()
}

// reboot resets the machine, which truncates the output files of its consoles.
func (v *vmm) reboot() error {
	v.events.tell("vm", "rebooting")
	if v.vm == nil {
		return errNotCreated
	}
	v.stop()
	if err := v.start(""); err != nil {
		return err
	}
	v.vm.state = stateRunning
	v.events.tell("vm", "rebooted")
	return nil
}

// delete removes everything. It is not an error if the machine is missing.
func (v *vmm) delete() error {
	if v.config == nil {
		return nil
	}
	if v.vm != nil {
		if err := v.shutdown(); err != nil {
			return err
		}
		time.Sleep(time.Duration(v.settings().Linger) * time.Millisecond)
	}
	v.console.close()
	v.config = nil
	v.events.tell("vm", "deleted")
	return nil
}

// end ends the process after the request is answered.
func (v *vmm) end() error {
	if err := v.delete(); err != nil {
		return err
	}
	v.events.tell("vmm", "shutdown")
	v.finish()
	return nil
}

func (v *vmm) finish() {
	if !v.ended {
		v.ended = true
		close(v.over)
	}
}

// handleEvent handles an action of a guest.
func (v *vmm) handleEvent(h guestEvent) {
	v.thread.Lock()
	defer v.thread.Unlock()
	if v.vm == nil || h.guest != nil && h.guest != v.vm.guest {
		return // the event is from a previous guest
	}
	var err error
	switch h.what {
	case guestPoweroff:
		v.log.Info("VM guest exit event")
		if v.noShutdown {
			err = v.shutdown()
			break
		}
		err = v.end()
	case guestReboot:
		v.log.Info("VM reset event")
		err = v.reboot()
		if err == nil {
			break
		}
		v.log.Error("cannot reboot", "err", err)
		v.finish()
	case guestPanic:
		if v.config.Pvpanic {
			v.events.tell("guest", "panic", "event", "1")
		}
	case guestActivated:
		v.events.tell("virtio-device", "activated", "id", h.id)
	case guestUnplugged:
		v.vm.unplugged(h.id)
	case guestCrash:
		crash()
	case guestFails:
		v.log.Error("VCPU generated error: VcpuRun(Failed to run vcpu: InternalError)")
		err = v.end()
	}
	if err != nil {
		v.log.Error("handle an event of the guest", "what", h.what, "err", err)
	}
}

// loop handles signals and actions of guests until the process has to end.
func (v *vmm) loop(signals <-chan os.Signal) {
	for {
		select {
		case <-v.over:
			return
		case <-v.reports.heard:
			for _, h := range v.reports.take() {
				v.handleEvent(h)
			}
		case s := <-signals:
			v.log.Info("signal", "signal", s.String())
			switch s {
			case guestOff:
				v.handleEvent(guestEvent{what: guestPoweroff})
			case guestAgain:
				v.handleEvent(guestEvent{what: guestReboot})
			case guestOver:
				v.handleEvent(guestEvent{what: guestFails})
			default:
				v.thread.Lock()
				if err := v.end(); err != nil {
					v.finish()
				}
				v.thread.Unlock()
			}
		}
	}
}

// Signals from tests that make the guest power off, reboot, or fail.
const (
	guestOff   = syscall.SIGUSR1
	guestAgain = syscall.SIGUSR2
	guestOver  = syscall.SIGWINCH
)

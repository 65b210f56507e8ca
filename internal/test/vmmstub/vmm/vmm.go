// Package vmm simulates cloud-hypervisor v53 or v54 for tests. It implements that program's API with its quirks, holds
// files, locks and taps in the same way, writes the same events and exits with the same codes, so that a driver cannot
// detect the difference. It is NOT a hypervisor: the guest is a simulation that reacts to its power button, or, on
// request, a real one in QEMU. The package follows the source and the measured behaviour of the real program, and must
// not know writ.
package vmm

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"sync"
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
	monitor    *monitor
	settings   func() Settings
	noShutdown bool
	heard      chan struct{} // signals new reports
	over       chan struct{} // closed when the process has to end

	reports struct {
		sync.Mutex
		waiting []guestEvent // actions of guests
	}

	thread  sync.Mutex
	config  *vmConfig // nil until vm.create
	console *consoles // nil while closed
	vm      *machine  // nil unless booted
	ended   bool
}

// ping answers even without a machine.
func (v *vmm) ping([]byte) (any, error) {
	return struct {
		BuildVersion string   `json:"build_version"`
		Version      string   `json:"version"`
		PID          int      `json:"pid"`
		Features     []string `json:"features"`
	}{v.release.String(), v.release.number(), os.Getpid(), []string{"io_uring", "kvm"}}, nil
}

// create stores a configuration and opens its consoles; it does not validate the configuration. If a console cannot be
// opened, the configuration still stays, and the next create fails because of it.
func (v *vmm) create(body []byte) (any, error) {
	config := &vmConfig{}
	if f := decodeBody(body, config); f != nil {
		return nil, f
	}
	if v.config != nil {
		return nil, errAlreadyCreated
	}
	v.config = config
	return nil, v.openConsoles()
}

func (v *vmm) openConsoles() error {
	if v.console != nil {
		return nil
	}
	console, err := openConsoles(v.config)
	if err != nil {
		return wrap("Error creating console devices", err)
	}
	v.console = console
	return nil
}

func (v *vmm) closeConsoles() {
	if v.console != nil {
		v.console.close()
		v.console = nil
	}
}

// boot validates, builds and starts the machine. If it fails, the configuration stays.
func (v *vmm) boot([]byte) (any, error) {
	if v.vm != nil {
		return nil, errAlreadyCreated
	}
	v.event("vm", "booting")
	if v.config == nil {
		return nil, errMissingConfig
	}
	if err := v.start(""); err != nil {
		return nil, err
	}
	v.vm.state = stateRunning
	v.event("vm", "booted")
	v.afterBoot()
	return nil, nil
}

// start makes a machine from the configuration. If memory is not empty, it is the file with the saved memory of the
// guest.
func (v *vmm) start(memory string) error {
	if err := v.openConsoles(); err != nil {
		return err
	}
	if err := v.config.validate(v.release); err != nil {
		return err
	}
	vm, err := v.newMachine(memory)
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
	v.report(guestEvent{guest: v.vm.guest, what: act})
}

// report records an action of a guest. It never blocks, so the caller may hold the thread.
func (v *vmm) report(h guestEvent) {
	v.reports.Lock()
	v.reports.waiting = append(v.reports.waiting, h)
	v.reports.Unlock()
	select {
	case v.heard <- struct{}{}:
	default: // already signalled
	}
}

// reported returns and clears the recorded actions.
func (v *vmm) reported() []guestEvent {
	v.reports.Lock()
	defer v.reports.Unlock()
	waiting := v.reports.waiting
	v.reports.waiting = nil
	return waiting
}

// handleEvent handles an action of a guest.
func (v *vmm) handleEvent(h guestEvent) {
	v.thread.Lock()
	defer v.thread.Unlock()
	if v.vm == nil || h.guest != nil && h.guest != v.vm.guest {
		return // of a previous guest
	}
	var err error
	switch h.what {
	case guestPoweroff:
		v.log.Info("VM guest exit event")
		if v.noShutdown {
			_, err = v.shutdown(nil)
			break
		}
		_, err = v.end(nil)
	case guestReboot:
		v.log.Info("VM reset event")
		_, err = v.reboot(nil)
		if err == nil {
			break
		}
		v.log.Error("cannot reboot", "err", err)
		v.finish()
	case guestPanic:
		if v.config.Pvpanic {
			v.event("guest", "panic", "event", "1")
		}
	case guestActivated:
		v.event("virtio-device", "activated", "id", h.id)
	case guestUnplugged:
		v.unplugged(h.id)
	case guestCrash:
		crash()
	case guestFails:
		v.log.Error("VCPU generated error: VcpuRun(Failed to run vcpu: InternalError)")
		_, err = v.end(nil)
	}
	if err != nil {
		v.log.Error("follow the guest", "what", h.what, "err", err)
	}
}

func (v *vmm) info([]byte) (any, error) {
	if v.config == nil {
		return nil, errNotCreated
	}
	info := struct {
		Config  *vmConfig       `json:"config"`
		State   string          `json:"state"`
		Memory  uint64          `json:"memory_actual_size"`
		Devices map[string]node `json:"device_tree,omitempty"`
	}{v.config, stateCreated, v.config.Memory.total(), nil}
	if v.vm != nil {
		info.State, info.Devices = v.vm.state, v.vm.tree()
		if v.config.Balloon != nil {
			info.Memory -= v.config.Balloon.Size
		}
	}
	return info, nil
}

// shutdown cuts the power; the configuration stays and can be booted again.
func (v *vmm) shutdown([]byte) (any, error) {
	if v.vm == nil {
		return nil, errNotRunning
	}
	v.stop()
	v.event("vm", "shutdown")
	return nil, nil
}

func (v *vmm) stop() {
	vm := v.vm
	v.vm = nil
	v.closeConsoles()
	vm.close()
}

// reboot resets the machine, which truncates the output files of its consoles.
func (v *vmm) reboot([]byte) (any, error) {
	v.event("vm", "rebooting")
	if v.vm == nil {
		return nil, errNotCreated
	}
	v.stop()
	if err := v.start(""); err != nil {
		return nil, err
	}
	v.vm.state = stateRunning
	v.event("vm", "rebooted")
	return nil, nil
}

// delete removes everything. It is not an error if the machine is missing.
func (v *vmm) delete([]byte) (any, error) {
	if v.config == nil {
		return nil, nil
	}
	if v.vm != nil {
		if _, err := v.shutdown(nil); err != nil {
			return nil, err
		}
		time.Sleep(time.Duration(v.settings().Linger) * time.Millisecond)
	}
	v.closeConsoles()
	v.config = nil
	v.event("vm", "deleted")
	return nil, nil
}

// end ends the process after the request is answered.
func (v *vmm) end([]byte) (any, error) {
	if _, err := v.delete(nil); err != nil {
		return nil, err
	}
	v.event("vmm", "shutdown")
	v.finish()
	return nil, nil
}

func (v *vmm) finish() {
	if !v.ended {
		v.ended = true
		close(v.over)
	}
}

func (v *vmm) pause([]byte) (any, error) {
	if v.vm == nil {
		return nil, errNotRunning
	}
	v.event("vm", "pausing")
	if v.vm.state != stateRunning {
		return nil, wrap("Cannot pause VM", transition("pause", v.vm.state, statePaused))
	}
	if err := v.vm.guest.pause(); err != nil {
		return nil, wrap("Cannot pause VM", err)
	}
	v.vm.state = statePaused
	v.event("vm", "paused")
	return nil, nil
}

func (v *vmm) resume([]byte) (any, error) {
	if v.vm == nil {
		return nil, errNotRunning
	}
	v.event("vm", "resuming")
	if v.vm.state == stateRunning {
		return nil, wrap("Cannot resume VM", transition("resume", v.vm.state, stateRunning))
	}
	if err := v.vm.guest.resume(); err != nil {
		return nil, wrap("Cannot resume VM", err)
	}
	v.vm.state = stateRunning
	v.event("vm", "resumed")
	return nil, nil
}

func transition(verb, from, to string) error {
	return chain{
		"Failed to " + verb + " migratable component",
		fmt.Sprintf("Invalid transition: InvalidStateTransition(%s, %s)", from, to),
	}
}

// powerButton presses the power button. It succeeds even if the guest ignores it.
func (v *vmm) powerButton([]byte) (any, error) {
	if v.vm == nil {
		return nil, errNotRunning
	}
	if v.settings().Deaf {
		v.log.Info("the guest ignores its power button because of the settings")
		return nil, nil
	}
	if err := v.vm.guest.powerButton(); err != nil {
		return nil, wrap("Error triggering power button", err)
	}
	return nil, nil
}

func (v *vmm) nmi([]byte) (any, error) {
	if v.vm == nil {
		return nil, errNotRunning
	}
	return nil, nil
}

// event writes an event to the event monitor, if there is one, and to the log.
func (v *vmm) event(source, event string, properties ...string) {
	v.log.Info("event", "source", source, "event", event, "properties", properties)
	v.monitor.tell(source, event, properties...)
}

// body encodes the result of an action; nil has no body.
func body(answer any) ([]byte, error) {
	if answer == nil {
		return nil, nil
	}
	return json.Marshal(answer)
}

// Package vmm plays cloud-hypervisor v53 or v54 for tests: it speaks that program's API with its quirks, holds files, locks and taps as it does,
// tells the same events and ends with the same codes, so that a driver cannot tell the difference. It is NO hypervisor: the guest is a
// make-believe that reads its power button, or, when asked, a real one in QEMU. It knows what was read and measured of the real program,
// and must not know writ.
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

// The releases that can be played.
const (
	V53 Release = 53
	V54 Release = 54
)

// String is what --version says, "v53.0".
func (r Release) String() string { return fmt.Sprintf("v%d.0", int(r)) }

func (r Release) number() string { return fmt.Sprintf("%d.0.0", int(r)) }

// The states that vm.info shows. After vm.shutdown it is Created again.
const (
	stateCreated = "Created"
	stateRunning = "Running"
	statePaused  = "Paused"
)

// vmm is the one thread of the real program that does everything, as a lock: who has it acts, and all others wait, also for a ping.
type vmm struct {
	release    Release
	log        *slog.Logger
	monitor    *monitor
	settings   func() Settings
	noShutdown bool
	heard      chan struct{} // has one when there are reports
	over       chan struct{} // closed when the process shall end

	reports struct {
		sync.Mutex
		waiting []happening // what guests did by themselves
	}

	thread  sync.Mutex
	config  *vmConfig // nil until vm.create
	console *consoles // nil while closed
	vm      *machine  // nil unless booted
	ended   bool
}

// ping answers before there is any machine.
func (v *vmm) ping([]byte) (any, error) {
	return struct {
		BuildVersion string   `json:"build_version"`
		Version      string   `json:"version"`
		PID          int      `json:"pid"`
		Features     []string `json:"features"`
	}{v.release.String(), v.release.number(), os.Getpid(), []string{"io_uring", "kvm"}}, nil
}

// create keeps a configuration, and opens its consoles; nothing else of it is looked at. If a console cannot be opened the configuration
// stays all the same, and the next create is told that there is one.
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
		return because("Error creating console devices", err)
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

// boot validates, builds and starts. If it fails the configuration stays.
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

// start makes a machine of the configuration; its guest goes on where memory was kept, if that is the path of such a file.
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

// afterBoot lets a make-believe guest do what the settings say, once.
func (v *vmm) afterBoot() {
	act := v.settings().AfterBoot
	if act == "" {
		return
	}
	v.log.Info("the guest acts by itself, as the settings say", "act", act)
	v.report(happening{guest: v.vm.guest, what: act})
}

// report tells what a guest did; it never waits, so it may be called by whoever has the thread.
func (v *vmm) report(h happening) {
	v.reports.Lock()
	v.reports.waiting = append(v.reports.waiting, h)
	v.reports.Unlock()
	select {
	case v.heard <- struct{}{}:
	default: // somebody said so already
	}
}

// reported returns what was reported and was not looked at yet.
func (v *vmm) reported() []happening {
	v.reports.Lock()
	defer v.reports.Unlock()
	waiting := v.reports.waiting
	v.reports.waiting = nil
	return waiting
}

// happens carries out what a guest did by itself, and says whether the process goes on.
func (v *vmm) happens(h happening) {
	v.thread.Lock()
	defer v.thread.Unlock()
	if v.vm == nil || h.guest != nil && h.guest != v.vm.guest {
		return // that guest is gone
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

// shutdown cuts the power; what was created stays, and can be booted again.
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

// reboot is hard, and truncates what the guest wrote to files of its consoles.
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

// delete forgets everything; what is not there is deleted already.
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

// end ends the process, after whoever asked for it has an answer.
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
		return nil, because("Cannot pause VM", transition("pause", v.vm.state, statePaused))
	}
	if err := v.vm.guest.pause(); err != nil {
		return nil, because("Cannot pause VM", err)
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
		return nil, because("Cannot resume VM", transition("resume", v.vm.state, stateRunning))
	}
	if err := v.vm.guest.resume(); err != nil {
		return nil, because("Cannot resume VM", err)
	}
	v.vm.state = stateRunning
	v.event("vm", "resumed")
	return nil, nil
}

func transition(verb, from, to string) error {
	return chain{"Failed to " + verb + " migratable component", fmt.Sprintf("Invalid transition: InvalidStateTransition(%s, %s)", from, to)}
}

// powerButton presses the button; whether the guest notices is its business.
func (v *vmm) powerButton([]byte) (any, error) {
	if v.vm == nil {
		return nil, errNotRunning
	}
	if v.settings().Deaf {
		v.log.Info("the guest does not notice its power button, as the settings say")
		return nil, nil
	}
	if err := v.vm.guest.powerButton(); err != nil {
		return nil, because("Error triggering power button", err)
	}
	return nil, nil
}

func (v *vmm) nmi([]byte) (any, error) {
	if v.vm == nil {
		return nil, errNotRunning
	}
	return nil, nil
}

// event tells the event monitor, if there is one, and the log.
func (v *vmm) event(source, event string, properties ...string) {
	v.log.Info("event", "source", source, "event", event, "properties", properties)
	v.monitor.tell(source, event, properties...)
}

// body renders what an action returned; nil has none.
func body(answer any) ([]byte, error) {
	if answer == nil {
		return nil, nil
	}
	return json.Marshal(answer)
}

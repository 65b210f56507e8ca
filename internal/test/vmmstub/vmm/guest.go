package vmm

import (
	"errors"
	"os"
	"sync"

	"writ/internal/wake"
)

// Actions of guests.
const (
	guestPoweroff  = "poweroff"
	guestReboot    = "reboot"
	guestPanic     = "panic"
	guestCrash     = "crash"     // crashes the virtual machine monitor
	guestFails     = "fail"      // its CPU fails, and the program ends with a clean shutdown
	guestActivated = "activated" // the driver of a device is loaded
	guestUnplugged = "unplugged" // a removed device was released
)

// guestEvent is an action of a guest.
type guestEvent struct {
	guest guest // nil means the current guest
	what  string
	id    string // device ID
}

// reports collects the actions of guests until the loop handles them.
type reports struct {
	heard wake.Signal // signals new actions

	mu      sync.Mutex
	waiting []guestEvent
}

// add records an action. It never blocks, so the caller may hold vmm.thread.
func (r *reports) add(h guestEvent) {
	r.mu.Lock()
	r.waiting = append(r.waiting, h)
	r.mu.Unlock()
	r.heard.Raise()
}

// take returns and removes the recorded actions.
func (r *reports) take() []guestEvent {
	r.mu.Lock()
	defer r.mu.Unlock()
	waiting := r.waiting
	r.waiting = nil
	return waiting
}

// guest runs in a machine. It reports its own actions.
type guest interface {
	powerButton() error
	pause() error
	resume() error
	// save writes the memory of the paused guest, memory bytes, to an existing file.
	save(path string, memory uint64) error
	plug(d *device) error
	unplug(d *device) error
	// unplugged is called when the device is off the bus.
	unplugged(d *device)
	grow(d *device, size uint64) error
	counters(d *device) map[string]uint64
	// close ends the guest at once and returns when it has ended.
	close()
}

// simulatedGuest simulates a guest without a CPU. It writes a notice to its consoles, reacts to its power button, and
// releases devices.
type simulatedGuest struct {
	report func(guestEvent)
	stuck  func() bool

	mu      sync.Mutex
	paused  bool
	pending []guestEvent // reported while it was paused
	closed  bool
}

// simulatedText is the notice on its consoles.
const simulatedText = "vmmstub is not a hypervisor: the guest is simulated, and no instruction is executed\r\n"

func newSimulatedGuest(v *vmm, devices []*device, paused bool) *simulatedGuest {
	g := &simulatedGuest{report: v.reports.add, stuck: func() bool { return v.settings().Stuck }, paused: paused}
	if v.settings().Mute {
		return g
	}
	if !paused {
		v.console.write(simulatedText)
	}
	for _, d := range devices {
		g.act(guestEvent{what: guestActivated, id: d.id})
	}
	return g
}

// act reports an action as soon as the guest runs.
func (g *simulatedGuest) act(h guestEvent) {
	g.mu.Lock()
	defer g.mu.Unlock()
	h.guest = g
	switch {
	case g.closed:
	case g.paused:
		g.pending = append(g.pending, h)
	default:
		g.report(h)
	}
}

func (g *simulatedGuest) powerButton() error {
	g.act(guestEvent{what: guestPoweroff})
	return nil
}

func (g *simulatedGuest) pause() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.paused = true
	return nil
}

func (g *simulatedGuest) resume() error {
	g.mu.Lock()
	g.paused = false
	pending := g.pending
	g.pending = nil
	g.mu.Unlock()
	for _, h := range pending {
		g.act(h)
	}
	return nil
}

// save writes a sparse file as large as the memory.
func (g *simulatedGuest) save(path string, memory uint64) error {
	return errors.Join(os.WriteFile(path, []byte(simulatedText), 0o600), os.Truncate(path, int64(memory)))
}

func (g *simulatedGuest) plug(d *device) error {
	g.act(guestEvent{what: guestActivated, id: d.id})
	return nil
}

func (g *simulatedGuest) unplug(d *device) error {
	if !g.stuck() {
		g.act(guestEvent{what: guestUnplugged, id: d.name()})
	}
	return nil
}

func (g *simulatedGuest) unplugged(*device) {}

func (g *simulatedGuest) grow(*device, uint64) error { return nil }

func (g *simulatedGuest) counters(*device) map[string]uint64 { return nil }

func (g *simulatedGuest) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed, g.pending = true, nil
}

// newGuest starts the guest of a machine; memory is the file with its saved memory, or "".
func newGuest(v *vmm, vm *machine, memory string) (guest, error) {
	program := v.settings().QEMU
	if program == "" {
		return newSimulatedGuest(v, vm.devices, memory != ""), nil
	}
	return newQEMU(v, program, vm, memory)
}

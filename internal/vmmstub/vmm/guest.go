package vmm

import (
	"errors"
	"os"
	"sync"
)

// What guests do by themselves.
const (
	guestPoweroff  = "poweroff"
	guestReboot    = "reboot"
	guestPanic     = "panic"
	guestCrash     = "crash"     // takes its virtual machine monitor with it
	guestFails     = "fail"      // its processor cannot go on; the program ends in order
	guestActivated = "activated" // the driver of a device is there
	guestUnplugged = "unplugged" // a device that was taken away was given up
)

// happening is something that a guest did.
type happening struct {
	guest guest // nil for whichever there is
	what  string
	id    string // of the device
}

// guest is what runs in a machine. What it does by itself it reports.
type guest interface {
	powerButton() error
	pause() error
	resume() error
	// save writes its memory, so many bytes, to a file that exists; it is paused.
	save(path string, memory uint64) error
	plug(d *device) error
	unplug(d *device) error
	// unplugged says that the device is off the bus.
	unplugged(d *device)
	grow(d *device, size uint64) error
	counters(d *device) map[string]uint64
	// close ends it at once and returns when it is gone.
	close()
}

// makeBelieve is a guest without a CPU. It says so on its consoles, notices its power button, and gives up devices.
type makeBelieve struct {
	report func(happening)
	stuck  func() bool

	mu      sync.Mutex
	paused  bool
	pending []happening // while it was paused
	closed  bool
}

// makeBelieveText is what it writes to its consoles.
const makeBelieveText = "vmmstub: this is no guest, and what runs it no hypervisor: no instruction is carried out\r\n"

func newMakeBelieve(v *vmm, devices []*device, paused bool) *makeBelieve {
	g := &makeBelieve{report: v.report, stuck: func() bool { return v.settings().Stuck }, paused: paused}
	if v.settings().Mute {
		return g
	}
	if !paused {
		v.console.write(makeBelieveText)
	}
	for _, d := range devices {
		g.act(happening{what: guestActivated, id: d.id})
	}
	return g
}

// act reports something as soon as the guest runs.
func (g *makeBelieve) act(h happening) {
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

func (g *makeBelieve) powerButton() error {
	g.act(happening{what: guestPoweroff})
	return nil
}

func (g *makeBelieve) pause() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.paused = true
	return nil
}

func (g *makeBelieve) resume() error {
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

// save writes a file as big as its memory, with a hole in the place of most of it.
func (g *makeBelieve) save(path string, memory uint64) error {
	return errors.Join(os.WriteFile(path, []byte(makeBelieveText), 0o600), os.Truncate(path, int64(memory)))
}

func (g *makeBelieve) plug(d *device) error {
	g.act(happening{what: guestActivated, id: d.id})
	return nil
}

func (g *makeBelieve) unplug(d *device) error {
	if !g.stuck() {
		g.act(happening{what: guestUnplugged, id: d.name()})
	}
	return nil
}

func (g *makeBelieve) unplugged(*device) {}

func (g *makeBelieve) grow(*device, uint64) error { return nil }

func (g *makeBelieve) counters(*device) map[string]uint64 { return nil }

func (g *makeBelieve) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed, g.pending = true, nil
}

// newGuest starts what runs in a machine; memory is the file that it goes on from, or "".
func (v *vmm) newGuest(vm *machine, memory string) (guest, error) {
	program := v.settings().QEMU
	if program == "" {
		return newMakeBelieve(v, vm.devices, memory != ""), nil
	}
	return newQEMU(v, program, vm, memory)
}

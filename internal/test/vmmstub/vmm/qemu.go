package vmm

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// qemu is a guest that runs in QEMU. The virtual machine monitor around it is still simulated: CPUs and memory that are
// added while the guest runs do not reach the guest.
type qemu struct {
	v       *vmm
	cmd     *exec.Cmd
	qmp     *qmp
	stderr  *bytes.Buffer // must not be read before QEMU has ended
	ended   chan struct{}
	closing chan struct{} // closed when the stub ends QEMU
	heard   bool          // the guest has announced its end; used only by the goroutine that reads QMP
	drivers *driverWatch
	watched chan struct{} // closed when drivers has ended
}

// newQEMU starts a guest for the configuration and its devices. With a memory file, the guest continues from the saved
// memory and is paused.
func newQEMU(v *vmm, program string, vm *machine, memory string) (*qemu, error) {
	if v.config.Payload.Kernel == nil {
		return nil, errors.New("vmmstub starts kernels only")
	}
	ours, theirs, err := pair()
	if err != nil {
		return nil, err
	}
	g := &qemu{v: v, stderr: &bytes.Buffer{}, ended: make(chan struct{}), closing: make(chan struct{}),
		watched: make(chan struct{})}
	g.qmp = &qmp{conn: ours, answers: make(chan qmpMessage), events: g.event}
	g.drivers = &driverWatch{qmp: g.qmp, waiting: map[string]string{}}
	files := []*os.File{theirs}
	args, files := qemuArguments(v.config, vm, memory, files)
	g.cmd = exec.Command(program, args...)
	g.cmd.ExtraFiles, g.cmd.Stdout, g.cmd.Stderr = files, g.stderr, g.stderr
	killWithParent(g.cmd)
	err = g.cmd.Start()
	_ = theirs.Close()
	if err != nil {
		_ = ours.Close()
		return nil, err
	}
	go g.follow()
	if memory == "" {
		for _, d := range vm.devices {
			g.drivers.await(d)
		}
	}
	go g.watch()
	if err := g.begin(memory); err != nil {
		g.close()
		return nil, fmt.Errorf("%w; its output: %s", err, strings.TrimSpace(g.stderr.String()))
	}
	return g, nil
}

// watch reports the devices whose driver the guest has loaded.
func (g *qemu) watch() {
	defer close(g.watched)
	for look := time.NewTicker(lookTime); ; {
		select {
		case <-g.ended:
			return
		case <-g.closing:
			return
		case <-look.C:
		}
		for _, id := range g.drivers.loaded() {
			g.v.reports.add(guestEvent{guest: g, what: guestActivated, id: id})
		}
	}
}

// follow waits until QEMU has ended. If neither the stub nor the guest caused the end, follow reports a crash.
func (g *qemu) follow() {
	g.qmp.listen()
	err := g.cmd.Wait()
	_ = g.qmp.conn.Close()
	close(g.ended)
	select {
	case <-g.closing:
		return
	default:
	}
	if !g.heard {
		g.v.log.Error("QEMU has ended by itself", "err", err, "said", g.stderr.String())
		g.v.reports.add(guestEvent{guest: g, what: guestCrash})
	}
}

// begin initialises QMP and starts the guest, or waits until its memory is loaded.
func (g *qemu) begin(memory string) error {
	if err := g.qmp.ask("qmp_capabilities", nil, nil); err != nil {
		return err
	}
	if memory == "" {
		return g.resume()
	}
	return g.qmp.until("query-status", func(status string) (bool, error) {
		return status != "inmigrate", nil
	})
}

// event handles an event of QEMU.
func (g *qemu) event(name string, data map[string]any) {
	switch name {
	case "SHUTDOWN":
		switch data["reason"] {
		case "guest-shutdown":
			g.heard = true
			g.v.reports.add(guestEvent{guest: g, what: guestPoweroff})
		case "guest-reset":
			g.heard = true
			g.v.reports.add(guestEvent{guest: g, what: guestReboot})
		}
	case "GUEST_PANICKED":
		g.v.reports.add(guestEvent{guest: g, what: guestPanic})
	case "DEVICE_DELETED":
		if id, ok := data["device"].(string); ok {
			g.v.reports.add(guestEvent{guest: g, what: guestUnplugged, id: id})
		}
	}
}

func (g *qemu) powerButton() error { return g.qmp.ask("system_powerdown", nil, nil) }

func (g *qemu) pause() error { return g.qmp.ask("stop", nil, nil) }

func (g *qemu) resume() error { return g.qmp.ask("cont", nil, nil) }

func (g *qemu) save(path string, _ uint64) error {
	if err := g.qmp.ask("migrate", map[string]any{"uri": "exec:exec cat > " + shellQuote(path)}, nil); err != nil {
		return err
	}
	return g.qmp.until("query-migrate", func(status string) (bool, error) {
		if status == "failed" || status == "cancelled" {
			return false, errors.New("QEMU could not write the memory")
		}
		return status == "completed", nil
	})
}

func (g *qemu) plug(d *device) error {
	defer g.drivers.await(d)
	if d.disk != nil {
		if err := g.qmp.ask("blockdev-add", d.node(), nil); err != nil {
			return err
		}
		return g.qmp.ask("device_add", d.front(), nil)
	}
	if err := g.qmp.askWith(d.file, "getfd", map[string]any{"fdname": d.back()}, nil); err != nil {
		return err
	}
	if err := g.qmp.ask("netdev_add", map[string]any{"type": "tap", "id": d.back(), "fd": d.back()}, nil); err != nil {
		return err
	}
	return g.qmp.ask("device_add", d.front(), nil)
}

func (g *qemu) unplug(d *device) error {
	return g.qmp.ask("device_del", map[string]any{"id": d.name()}, nil)
}

// unplugged removes the backend of a device that the guest has released.
func (g *qemu) unplugged(d *device) {
	command, argument := "blockdev-del", "node-name"
	if d.net != nil {
		command, argument = "netdev_del", "id"
	}
	if err := g.qmp.ask(command, map[string]any{argument: d.back()}, nil); err != nil {
		g.v.log.Warn("remove the backend of a device", "id", d.id, "err", err)
	}
}

func (g *qemu) grow(d *device, size uint64) error {
	return g.qmp.ask("block_resize", map[string]any{"node-name": d.back(), "size": size}, nil)
}

func (g *qemu) counters(d *device) map[string]uint64 {
	var all []struct {
		Device string `json:"qdev"`
		Stats  struct {
			ReadBytes  uint64 `json:"rd_bytes"`
			WriteBytes uint64 `json:"wr_bytes"`
			ReadOps    uint64 `json:"rd_operations"`
			WriteOps   uint64 `json:"wr_operations"`
		} `json:"stats"`
	}
	if d.disk == nil || g.qmp.ask("query-blockstats", nil, &all) != nil {
		return nil
	}
	for _, one := range all {
		if strings.Contains(one.Device, "/"+d.name()+"/") {
			return map[string]uint64{
				"read_bytes": one.Stats.ReadBytes, "write_bytes": one.Stats.WriteBytes, "read_ops": one.Stats.ReadOps,
				"write_ops": one.Stats.WriteOps,
			}
		}
	}
	return nil
}

// close lets QEMU flush its disks and ends it.
func (g *qemu) close() {
	close(g.closing)
	_ = g.qmp.ask("quit", nil, nil) // QEMU may have ended already
	kill := time.AfterFunc(quitTime, func() { _ = g.cmd.Process.Kill() })
	defer kill.Stop()
	<-g.ended
	<-g.watched
}

// quitTime limits how long QEMU may flush its disks.
const quitTime = 20 * time.Second

package vmm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
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
	heard   bool          // the guest has announced how it ends; used by the reader of QMP
	watched chan struct{} // closed when watch has ended

	mu      sync.Mutex
	waiting map[string]string // IDs of devices without a loaded driver, by QEMU's names
}

// newQEMU starts a guest for the configuration and its devices. With a memory file it continues from there and is
// paused.
func newQEMU(v *vmm, program string, vm *machine, memory string) (*qemu, error) {
	if v.config.Payload.Kernel == nil {
		return nil, errors.New("vmmstub starts kernels only")
	}
	ours, theirs, err := pair()
	if err != nil {
		return nil, err
	}
	g := &qemu{v: v, stderr: &bytes.Buffer{}, ended: make(chan struct{}), closing: make(chan struct{}),
		watched: make(chan struct{}), waiting: map[string]string{}}
	g.qmp = &qmp{conn: ours, answers: make(chan qmpMessage), events: g.event}
	files := []*os.File{theirs}
	args, files := g.arguments(vm, memory, files)
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
			g.await(d)
		}
	}
	go g.watch()
	if err := g.begin(memory); err != nil {
		g.close()
		return nil, fmt.Errorf("%w; its output: %s", err, strings.TrimSpace(g.stderr.String()))
	}
	return g, nil
}

// await makes watch look for the driver of a device.
func (g *qemu) await(d *device) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if d.disk != nil || d.net != nil {
		g.waiting[d.name()] = d.id
	}
}

// watch looks for loaded drivers in the guest. QEMU has this state, but sends no event for it.
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
		awaited := g.awaited()
		for _, name := range slices.Sorted(maps.Keys(awaited)) {
			if !g.driven(name) {
				continue
			}
			g.mu.Lock()
			delete(g.waiting, name)
			g.mu.Unlock()
			g.v.report(guestEvent{guest: g, what: guestActivated, id: awaited[name]})
		}
	}
}

func (g *qemu) awaited() map[string]string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.waiting)
}

// driven reports whether the guest's driver has set up a device.
func (g *qemu) driven(name string) bool {
	var answer struct {
		Status struct {
			Statuses []string `json:"statuses"`
		} `json:"status"`
	}
	if g.qmp.ask("x-query-virtio-status", map[string]any{"path": "/machine/peripheral/" + name + "/virtio-backend"},
		&answer) != nil {
		return false
	}
	return slices.ContainsFunc(answer.Status.Statuses,
		func(s string) bool { return strings.HasPrefix(s, "VIRTIO_CONFIG_S_DRIVER_OK") })
}

// follow waits until QEMU has ended. If neither the stub nor the guest caused the end, it is a crash.
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
		g.v.report(guestEvent{guest: g, what: guestCrash})
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
	return g.until("query-status", func(status string) (bool, error) {
		return status != "inmigrate", nil
	})
}

// until polls a status until done.
func (g *qemu) until(command string, done func(status string) (bool, error)) error {
	for {
		var answer struct {
			Status string `json:"status"`
			Reason string `json:"error-desc"`
		}
		if err := g.qmp.ask(command, nil, &answer); err != nil {
			return err
		}
		switch finished, err := done(answer.Status); {
		case err != nil:
			return fmt.Errorf("%w: %s", err, answer.Reason)
		case finished:
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// arguments returns QEMU's arguments, and the files that it inherits beside the standard ones.
func (g *qemu) arguments(vm *machine, memory string, files []*os.File) ([]string, []*os.File) {
	c := g.v.config
	args := []string{
		"-name", "guest of vmmstub", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-action",
		"panic=none", "-S", "-machine", "pc", "-accel", accelerator(), "-cpu", "max", "-smp", fmt.Sprint(c.CPUs.Boot), "-m",
		fmt.Sprintf("size=%dk", c.Memory.Size>>10), "-chardev", "socket,id=qmp,fd=3", "-mon", "chardev=qmp,mode=control",
		"-kernel", *c.Payload.Kernel, "-device", "virtio-rng-pci",
	}
	if c.Payload.Initramfs != nil {
		args = append(args, "-initrd", *c.Payload.Initramfs)
	}
	if c.Payload.Cmdline != nil {
		args = append(args, "-append", *c.Payload.Cmdline)
	}
	if c.Serial.Mode == "File" {
		args = append(args, "-chardev", appendTo("serial", *c.Serial.File), "-serial", "chardev:serial")
	}
	if c.Console.Mode == "File" {
		args = append(args, "-chardev", appendTo("console", *c.Console.File), "-device", "virtio-serial-pci", "-device",
			"virtconsole,chardev=console")
	}
	if c.Pvpanic {
		args = append(args, "-device", "pvpanic")
	}
	if memory != "" {
		args = append(args, "-incoming", "exec:exec cat "+shellQuote(memory))
	}
	for _, d := range vm.devices {
		switch {
		case d.disk != nil:
			args = append(args, "-blockdev", asJSON(d.node()), "-device", asJSON(d.front()))
		case d.net != nil:
			args = append(args, "-netdev", fmt.Sprintf("tap,id=%s,fd=%d", d.back(), 3+len(files)), "-device", asJSON(d.front()))
			files = append(files, d.file)
		}
	}
	return args, files
}

// accelerator returns KVM if it uses the hardware. Other modules also provide /dev/kvm, but unmodified kernels do not
// run there.
func accelerator() string {
	for _, module := range []string{"kvm_intel", "kvm_amd"} {
		if _, err := os.Stat("/sys/module/" + module); err == nil {
			if f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0); err == nil {
				_ = f.Close()
				return "kvm"
			}
		}
	}
	// MiB for translated code: the default is 1 GiB, which may exceed the memory limit of this process.
	return "tcg,tb-size=32"
}

func appendTo(id, path string) string {
	return "file,id=" + id + ",append=on,path=" + strings.ReplaceAll(path, ",", ",,")
}

func shellQuote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

func asJSON(v map[string]any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // only strings and numbers
	}
	return string(text)
}

// node returns the disk for QEMU, without a lock, because the stub holds it.
func (d *device) node() map[string]any {
	return map[string]any{"driver": "raw", "node-name": d.back(), "read-only": d.disk.ReadOnly,
		"file": map[string]any{"driver": "file", "filename": *d.disk.Path, "locking": "off"}}
}

// front returns the device on the guest's bus. QEMU uses the first two slots itself.
func (d *device) front() map[string]any {
	f := map[string]any{"id": d.name(), "addr": fmt.Sprintf("%#x", d.slot+2), "disable-legacy": "on"}
	if d.net != nil {
		f["driver"], f["netdev"], f["mac"] = "virtio-net-pci", d.back(), d.net.MAC
		return f
	}
	f["driver"], f["drive"] = "virtio-blk-pci", d.back()
	if d.disk.Serial != nil {
		f["serial"] = *d.disk.Serial
	}
	return f
}

// event handles an event of QEMU.
func (g *qemu) event(name string, data map[string]any) {
	switch name {
	case "SHUTDOWN":
		switch data["reason"] {
		case "guest-shutdown":
			g.heard = true
			g.v.report(guestEvent{guest: g, what: guestPoweroff})
		case "guest-reset":
			g.heard = true
			g.v.report(guestEvent{guest: g, what: guestReboot})
		}
	case "GUEST_PANICKED":
		g.v.report(guestEvent{guest: g, what: guestPanic})
	case "DEVICE_DELETED":
		if id, ok := data["device"].(string); ok {
			g.v.report(guestEvent{guest: g, what: guestUnplugged, id: id})
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
	return g.until("query-migrate", func(status string) (bool, error) {
		if status == "failed" || status == "cancelled" {
			return false, errors.New("QEMU could not write the memory")
		}
		return status == "completed", nil
	})
}

func (g *qemu) plug(d *device) error {
	defer g.await(d)
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
	_ = g.qmp.ask("quit", nil, nil) // it may have ended
	kill := time.AfterFunc(quitTime, func() { _ = g.cmd.Process.Kill() })
	defer kill.Stop()
	<-g.ended
	<-g.watched
}

const (
	quitTime = 20 * time.Second       // time limit for QEMU to flush
	lookTime = 100 * time.Millisecond // poll interval for drivers
)

package vmm

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// qemuArguments returns QEMU's arguments, and the files that it inherits in addition to the standard streams.
func qemuArguments(c *vmConfig, vm *machine, memory string, files []*os.File) ([]string, []*os.File) {
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

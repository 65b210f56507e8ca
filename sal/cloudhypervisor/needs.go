package cloudhypervisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"writ"
	"writ/internal/confine"
	"writ/sal/needs"
)

// Needs are what machines need of a host.
func (d *Driver) Needs() []needs.Need {
	const none = "there are no machines"
	return []needs.Need{
		{
			Name: "the program cloud-hypervisor", Use: none, Vital: true, Look: d.lookProgram,
			Fix: "put cloud-hypervisor v53 or newer on the PATH of the runner: https://github.com/cloud-hypervisor/cloud-hypervisor/releases",
		},
		{Name: "networks on this host", Use: none, Fix: "see what networks need", Vital: true, Look: needs.Given(d.Networks != nil)},
		{Name: "KVM", Use: none, Vital: true, Look: d.lookKVM, Fix: kvmFix},
		{Name: "KVM by the processor", Use: "machines do not start, except with kernels that are made for it", Look: lookHardware, Fix: kvmFix},
		{
			Name: "controllers cpu, memory, pids", Use: "nothing bounds what the processes of machines take of the host", Fix: needs.ControllersFix,
			Look: needs.Controllers(d.groups(), "cpu", "memory", "pids"),
		},
		{
			Name: "users of their own", Use: "processes of machines run as the runner does, as root mostly", Fix: needs.AccountsFix,
			Look: needs.Accounts(d.Accounts),
		},
		{
			Name: "firmware", Use: "machines without a kernel are refused", Look: d.lookFirmware,
			Fix: "writ runner --firmware FILE, the CLOUDHV.fd of https://github.com/cloud-hypervisor/edk2/releases",
		},
	}
}

func (d *Driver) lookProgram(ctx context.Context) (string, error) {
	version, err := d.Probe(ctx)
	if errors.Is(err, exec.ErrNotFound) {
		return "", errors.New("not on PATH")
	}
	if err != nil {
		return "", errors.New(writ.AsError(err).Message)
	}
	return version, nil
}

// kvmFix is what to do where the kernel runs no guests, or only some.
const kvmFix = "switch virtualisation on in the firmware of this host; modprobe kvm_intel || modprobe kvm_amd; usermod -aG kvm USER if the runner is not root"

// device is where the kernel runs guests.
const device = "/dev/kvm"

// microsofts is where the kernel of a host does that whose hypervisor is Microsoft's. Programs of cloud-hypervisor may know it; nobody has tried
// machines there.
const microsofts = "/dev/mshv"

// lookKVM looks whether the kernel runs guests, unless the program says that it does without: then it only plays a hypervisor.
func (d *Driver) lookKVM(ctx context.Context) (string, error) {
	found, err := needs.Openable(cmp.Or(d.kvm, device))(ctx)
	if err == nil && d.Accounts.Used() { // it is not us who opens it
		err = confine.Usable(nil, []string{cmp.Or(d.kvm, device)})
	}
	if err == nil {
		return found, nil
	}
	if said, asked := d.about(ctx); asked == nil && strings.Contains(said, noHypervisor) {
		return "the program does without", nil
	}
	if _, there := os.Stat(cmp.Or(d.mshv, microsofts)); there == nil {
		err = fmt.Errorf("%w; this host has Microsoft's hypervisor (%s), with which writ makes no machines", err, microsofts)
	}
	return "", err
}

// noHypervisor is in what a program says of itself with its version that plays cloud-hypervisor.
const noHypervisor = "no hypervisor"

// lookHardware looks whether the kernel runs any guest: by hardware, and not only those that are made for it.
func lookHardware(context.Context) (string, error) {
	if loaded("kvm_pvm") && !loaded("kvm_intel") && !loaded("kvm_amd") {
		return "", errors.New("it is kvm_pvm, which runs only kernels that are made for it")
	}
	return "nothing else is known", nil
}

// loaded reports whether the kernel has a module, loaded or built in.
func loaded(module string) bool {
	_, err := os.Stat("/sys/module/" + module)
	return err == nil
}

func (d *Driver) lookFirmware(context.Context) (string, error) {
	if d.Firmware == "" {
		return "", errors.New("none is named")
	}
	return d.Firmware, checkFirmware(d.Firmware)
}

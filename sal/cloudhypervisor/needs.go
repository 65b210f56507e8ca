package cloudhypervisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"writ/internal/confine"
	"writ/sal/needs"
)

// Needs returns the requirements of machines on a host.
func (d *Driver) Needs() []needs.Need {
	const none = "there are no machines"
	kvm := kvmCheck{
		program: program(d.Program), accounts: d.Accounts,
		device: cmp.Or(d.kvm, device), mshv: cmp.Or(d.mshv, mshvDevice),
	}
	return []needs.Need{
		{
			Name: "the program cloud-hypervisor", Use: none, Vital: true, Look: program(d.Program).check,
			Fix: "put cloud-hypervisor v53 or newer on the PATH of the runner: https://github.com/cloud-hypervisor/cloud-hypervisor/releases",
		},
		{
			Name: "networks on this host", Use: none, Fix: "see the needs of networks", Vital: true,
			Look: needs.Given(d.Networks != nil),
		},
		{Name: "KVM", Use: none, Vital: true, Look: kvm.check, Fix: kvmFix, Rights: "usermod -aG kvm USER, then log in again; or run the node as root"},
		{
			Name: "KVM by the processor", Use: "machines start only with kernels that are built for it", Look: checkHardware,
			Fix: kvmFix,
		},
		{
			Name: "controllers cpu, memory, pids", Use: "the processes of machines have no resource limits",
			Fix:  needs.ControllersFix,
			Look: needs.Controllers(d.groups(), "cpu", "memory", "pids"),
		},
		{
			Name: "users of their own", Use: "processes of machines run as the user of the runner, usually root",
			Fix:  needs.AccountsFix,
			Look: needs.Accounts(d.Accounts),
		},
		{
			Name: "firmware", Use: "machines without a kernel are refused", Look: inspectFirmware(d.Firmware),
			Fix: "writ runner --firmware FILE, the CLOUDHV.fd of https://github.com/cloud-hypervisor/edk2/releases",
		},
	}
}

// kvmFix is the remedy if KVM is missing or runs only some kernels.
const kvmFix = "switch virtualisation on in the firmware of this host; modprobe kvm_intel || modprobe kvm_amd; usermod -aG kvm USER if the runner is not root"

// device is the device file of KVM.
const device = "/dev/kvm"

// mshvDevice is the device file of Microsoft's hypervisor. Builds of cloud-hypervisor may support it, but writ was not
// tested with it.
const mshvDevice = "/dev/mshv"

// kvmCheck checks that the processes of machines can use KVM.
type kvmCheck struct {
	program      program
	accounts     *confine.Accounts
	device, mshv string // paths of device files
}

// check returns an error if KVM cannot be used. It accepts a host without KVM if the program is a test stub, which
// reports that it needs no hypervisor.
func (k kvmCheck) check(ctx context.Context) (string, error) {
	found, err := needs.Openable(k.device)(ctx)
	if err == nil && k.accounts.Used() { // the runner does not open the device itself
		err = confine.Usable(nil, []string{k.device})
	}
	if err == nil {
		return found, nil
	}
	if said, asked := k.program.about(ctx); asked == nil && strings.Contains(said, noHypervisor) {
		return "the program needs no hypervisor", nil
	}
	if _, there := os.Stat(k.mshv); there == nil {
		err = fmt.Errorf("%w; this host has Microsoft's hypervisor (%s), which writ does not support", err, mshvDevice)
	}
	return "", err
}

// noHypervisor is in the version output of a stub that simulates cloud-hypervisor.
const noHypervisor = "not a hypervisor"

// checkHardware returns an error if KVM is kvm_pvm, which runs only kernels that are built for it. With kvm_intel or
// kvm_amd, KVM uses the virtualisation of the processor and runs any guest.
func checkHardware(context.Context) (string, error) {
	if loaded("kvm_pvm") && !loaded("kvm_intel") && !loaded("kvm_amd") {
		return "", errors.New("it is kvm_pvm, which runs only kernels that are built for it")
	}
	return "no restriction found", nil
}

// loaded reports whether a kernel module is loaded or built in.
func loaded(module string) bool {
	_, err := os.Stat("/sys/module/" + module)
	return err == nil
}

// inspectFirmware checks a firmware file.
func inspectFirmware(path string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		if path == "" {
			return "", errors.New("not configured")
		}
		return path, checkFirmware(path)
	}
}

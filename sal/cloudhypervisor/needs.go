package cloudhypervisor

import (
	"context"
	"errors"
	"os"
	"os/exec"

	"writ"
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
		{
			Name: "KVM", Use: "machines do not start", Look: lookKVM,
			Fix: "switch virtualisation on in the firmware of this host; modprobe kvm_intel || modprobe kvm_amd; usermod -aG kvm USER if the runner is not root",
		},
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

// lookKVM looks whether the kernel runs any guest: by hardware, and not only those that are made for it.
func lookKVM(ctx context.Context) (string, error) {
	found, err := needs.Openable("/dev/kvm")(ctx)
	if err != nil {
		return "", err
	}
	if loaded("kvm_pvm") && !loaded("kvm_intel") && !loaded("kvm_amd") {
		return "", errors.New("it is kvm_pvm, which runs only kernels that are made for it")
	}
	return found, nil
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
	info, err := os.Stat(d.Firmware)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New(d.Firmware + " is no file")
	}
	return d.Firmware, err
}

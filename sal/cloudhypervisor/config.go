package cloudhypervisor

import (
	"context"
	"path/filepath"

	"writ"
	"writ/sal"
	"writ/sal/cloudhypervisor/api"
)

// Limits for growing a running machine with machine.resize. Capacity for later growth costs the guest memory for page
// tables, so the maximum is growth times the initial size.
const (
	growth   = 4
	maxCPUs  = 255
	someCPUs = 8 // every machine may grow to at least this number
)

// hotplugStep is the unit of cloud-hypervisor's memory hotplug, in MiB.
const hotplugStep = 128

// seedID and the prefixes form device IDs. They must not change during the life of a machine, because its snapshots
// contain them.
const (
	seedID     = "seed"
	diskPrefix = "disk-"
	netPrefix  = "net-"
)

// config returns the machine's configuration for cloud-hypervisor. Every setting whose default depends on the version
// is explicit.
func (j *job) config(ctx context.Context, r *sal.Record[own]) (api.Config, error) {
	payload, err := j.payload(ctx, r)
	if err == nil && r.Own.User != 0 {
		payload, err = j.ownPayload(ctx, r, payload)
	}
	if err != nil {
		return api.Config{}, err
	}
	disks, err := j.disks(ctx, r)
	if err != nil {
		return api.Config{}, err
	}
	memory := r.Own.MemoryMiB << 20
	c := api.Config{
		CPUs: api.CPUs{
			BootVcpus: r.Own.CPUs, MaxVcpus: max(r.Own.CPUs, min(max(r.Own.CPUs*growth, someCPUs), maxCPUs)),
			Nested: false,
		},
		Memory: api.Memory{
			Size: memory, HotplugMethod: "Acpi", HotplugSize: roundUp(memory*(growth-1), hotplugStep<<20),
		},
		Payload: payload,
		Disks: append(disks,
			api.Disk{ID: seedID, Path: filepath.Join(j.dir, seedName), ImageType: "Raw", Readonly: true}),
		Rng:     api.Entropy{Src: "/dev/urandom"},
		Serial:  api.Console{Mode: "File", File: filepath.Join(j.dir, consoleName)},
		Console: api.Console{Mode: "Off"},
	}
	for _, p := range r.Own.Ports {
		n := api.Net{ID: netPrefix + p.Network.HostName(), Tap: p.Device, Mac: p.MAC.String(), Mtu: p.MTU}
		if r.Own.User != 0 {
			n.Mtu = 0 // the tap already has this MTU, and only root may set an MTU
		}
		c.Net = append(c.Net, n)
	}
	return c, nil
}

func roundUp(n, unit int64) int64 { return (n + unit - 1) / unit * unit }

// payload returns the boot files of the machine: kernel and initramfs, or the firmware, which loads a kernel from the
// first disk.
func (j *job) payload(ctx context.Context, r *sal.Record[own]) (api.Payload, error) {
	args := spec(r)
	if args.Kernel.Name == "" {
		if j.Firmware == "" {
			return api.Payload{}, writ.Errorf(writ.CodeDriverMissing,
				"this node has no firmware to boot %s from its first disk", r.Resource).
				WithHint("give the machine a kernel, or the node's runner a firmware (CLOUDHV.fd)")
		}
		if err := checkFirmware(j.Firmware); err != nil {
			return api.Payload{}, writ.Errorf(writ.CodeDriverMissing, "this node's firmware is not bootable: %w", err).
				WithHint("give the machine a kernel, or the node's runner another firmware (CLOUDHV.fd)")
		}
		return api.Payload{Firmware: j.Firmware}, nil
	}
	p := api.Payload{Cmdline: args.Cmdline}
	if p.Cmdline == "" {
		p.Cmdline = "console=ttyS0 reboot=k panic=1"
		if len(r.Own.Volumes) > 0 {
			p.Cmdline += " root=/dev/vda rw"
		}
	}
	var err error
	if p.Kernel, err = j.image(ctx, r, "kernel", args.Kernel); err != nil {
		return api.Payload{}, err
	}
	if args.Initramfs.Name != "" {
		p.Initramfs, err = j.image(ctx, r, "initramfs", args.Initramfs)
	}
	if err == nil {
		err = sal.HostError("check the kernel of "+r.Resource.String(),
			checkPayload(p, args.Kernel.Name, args.Initramfs.Name, r.Own.MemoryMiB<<20))
	}
	return p, err
}

// image returns the file of an argument, which is "kernel" or "initramfs".
func (j *job) image(ctx context.Context, r *sal.Record[own], argument string, ref writ.Ref) (string, error) {
	image, err := j.Images.Image(ctx, r.Resource.Project, ref)
	if err != nil {
		return "", sal.HostError("find the image "+ref.Name, err)
	}
	return image.Path, sal.CheckFormat("machine.create", argument, r.Resource.Project, ref, image)
}

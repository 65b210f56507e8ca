package runtimespec

import (
	"context"
	"slices"

	"github.com/containerd/containerd/v2/contrib/seccomp"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/oci"
	"github.com/opencontainers/runtime-spec/specs-go"
)

// btrfs is the second byte of all ioctl numbers of btrfs. Three of them are shared with other file systems.
const btrfs = 0x94

// shared lists these three: FICLONE, FICLONERANGE and FIDEDUPERANGE, which make files share blocks, as cp does.
var shared = []uint64{0x4004_9409, 0x4020_940d, 0xc018_9436}

// WithSeccomp sets containerd's default seccomp profile for the capabilities of the container, without the ioctls of
// btrfs that need only write access. With them, a container could make its own subvolume and write more than the size
// of its volume, and no snapshot would include that data.
func WithSeccomp(_ context.Context, _ oci.Client, _ *containers.Container, s *specs.Spec) error {
	profile := seccomp.DefaultProfile(s)
	for i, rule := range profile.Syscalls {
		if len(rule.Args) == 0 && rule.Action == specs.ActAllow {
			profile.Syscalls[i].Names = slices.DeleteFunc(slices.Clone(rule.Names),
				func(name string) bool { return name == "ioctl" })
		}
	}
	profile.Syscalls = append(profile.Syscalls, requests()...)
	s.Linux.Seccomp = profile
	return nil
}

// requests returns the rules for ioctl. A filter cannot express "all except". So there is one rule for each bit in
// which the second byte of a number can differ from btrfs. Only the low 32 bits are compared, as in the kernel.
func requests() []specs.LinuxSyscall {
	allow := func(mask, value uint64) specs.LinuxSyscall {
		return specs.LinuxSyscall{Names: []string{"ioctl"}, Action: specs.ActAllow, Args: []specs.LinuxSeccompArg{
			{Index: 1, Op: specs.OpMaskedEqual, Value: mask, ValueTwo: value},
		}}
	}
	var all []specs.LinuxSyscall
	for bit := uint64(1 << 8); bit < 1<<16; bit <<= 1 {
		all = append(all, allow(bit, ^uint64(btrfs<<8)&bit))
	}
	for _, number := range shared {
		all = append(all, allow(1<<32-1, number))
	}
	return all
}

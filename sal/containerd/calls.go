package containerd

import (
	"context"
	"slices"

	"github.com/containerd/containerd/v2/contrib/seccomp"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/oci"
	"github.com/opencontainers/runtime-spec/specs-go"
)

// btrfs is the second byte of the number of every request that btrfs has of its own, and of three that other file systems have, too.
const btrfs = 0x94

// shared are those three: FICLONE, FICLONERANGE and FIDEDUPERANGE let files share blocks, as cp does.
var shared = []uint64{0x4004_9409, 0x4020_940d, 0xc018_9436}

// lessCalls is containerd's own profile of system calls, for the capabilities that the container has by now, without what btrfs offers to
// everybody who may write: in a subvolume of its own a container could write past the size of its volume, and no snapshot would hold it.
func lessCalls(_ context.Context, _ oci.Client, _ *containers.Container, s *specs.Spec) error {
	profile := seccomp.DefaultProfile(s)
	for i, rule := range profile.Syscalls {
		if len(rule.Args) == 0 && rule.Action == specs.ActAllow {
			profile.Syscalls[i].Names = slices.DeleteFunc(slices.Clone(rule.Names), func(name string) bool { return name == "ioctl" })
		}
	}
	profile.Syscalls = append(profile.Syscalls, requests()...)
	s.Linux.Seccomp = profile
	return nil
}

// requests are the rules for ioctl. A filter knows no "all but", so there is one for each bit in which a number can differ from those of btrfs.
// Only 32 bits of it are looked at: the kernel does not look at more either.
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

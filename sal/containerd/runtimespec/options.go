// Package runtimespec has options for the runtime spec of a container that depend only on its image, its program and
// fixed rules: the program, user and environment of the image, the limits of Linux for a program, the system call
// filter, and hidden files of the kernel. It does not depend on records of the driver.
package runtimespec

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/oci"
	"github.com/opencontainers/runtime-spec/specs-go"

	"writ"
	"writ/internal/cgroup"
	"writ/sal/catalog"
)

// RequireProgram rejects a container without a program from its image or its arguments.
func RequireProgram(_ context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
	if len(s.Process.Args) == 0 {
		return writ.Errorf(writ.CodeArgumentsInvalid, "the image names no program").
			WithHint("set command: [\"program\", …]")
	}
	return nil
}

// WithInit starts the init process of InitMount, which starts the program of the container.
func WithInit(_ context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
	s.Process.Args = slices.Concat([]string{catalog.InitPath, "--"}, s.Process.Args)
	return nil
}

// InitMount returns the mount of the init program of the host.
func InitMount(program string) specs.Mount {
	return specs.Mount{Destination: catalog.InitPath, Type: "bind", Source: program,
		Options: []string{"bind", "nosuid", "nodev", "ro"}}
}

// WithLimits replaces the limits of each process. It removes containerd's limit of 1,024 open files, which is too low
// for databases.
func WithLimits(limits catalog.Ulimits) oci.SpecOpts {
	return func(_ context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
		s.Process.Rlimits = nil
		for _, l := range limitsIn(limits) {
			s.Process.Rlimits = append(s.Process.Rlimits, specs.POSIXRlimit{Type: l.kind, Hard: l.most, Soft: l.most})
		}
		return nil
	}
}

// WithMemory limits the memory of a container, in bytes. The container gets no swap, unless the kernel cannot limit it:
// swap is slow, and not charged to the container.
func WithMemory(most int64) oci.SpecOpts {
	options := []oci.SpecOpts{oci.WithMemoryLimit(uint64(most))}
	if cgroup.LimitsSwap() {
		options = append(options, oci.WithMemorySwap(most)) // memory and swap together
	}
	return oci.Compose(options...)
}

// Tmpfs returns the mounts of empty directories in memory. Their files count as memory of the container, whose limit is
// `most` bytes. Programs in them do not start, as with Docker.
func Tmpfs(paths []string, most int64) []specs.Mount {
	var all []specs.Mount
	for _, path := range paths {
		all = append(all, specs.Mount{Destination: path, Type: "tmpfs", Source: sourceOfTmpfs,
			Options: []string{"nosuid", "nodev", "noexec", "mode=0755", "size=" + strconv.FormatInt(most, 10)}})
	}
	return all
}

const sourceOfTmpfs = "writ"

// WithOwnTmpfs makes the program's user the owner of the mounts of Tmpfs, so that it can write there. If the layer
// contains the directory, the runtime gives the mount the mode of that directory. This is always the case after a
// restart, because the runtime has then made the directory.
func WithOwnTmpfs(_ context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
	for i, m := range s.Mounts {
		if m.Type == "tmpfs" && m.Source == sourceOfTmpfs {
			s.Mounts[i].Options = append(m.Options, fmt.Sprintf("uid=%d", s.Process.User.UID),
				fmt.Sprintf("gid=%d", s.Process.User.GID))
		}
	}
	return nil
}

// WithLowPorts allows each user of a container to listen on ports below 1024. The container has its own network
// namespace, so these are not ports of the host.
func WithLowPorts(_ context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
	if s.Linux.Sysctl == nil {
		s.Linux.Sysctl = make(map[string]string)
	}
	s.Linux.Sysctl["net.ipv4.ip_unprivileged_port_start"] = "0"
	return nil
}

// WithoutCmdline hides the command line of the host's kernel, which may contain a token.
func WithoutCmdline(_ context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
	s.Linux.MaskedPaths = append(s.Linux.MaskedPaths, "/proc/cmdline")
	return nil
}

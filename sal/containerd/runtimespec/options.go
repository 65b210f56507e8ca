// Package runtimespec has options for the runtime spec of a container that depend only on its image, its program and
// fixed rules: the program, user and environment of the image, the limits of Linux for a program, the system call filter,
// and hidden files of the kernel. It does not depend on records of the driver.
package runtimespec

import (
	"context"

	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/oci"

	"writ"
)

// RequireProgram rejects a container without a program from its image or its arguments.
func RequireProgram(_ context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
	if len(s.Process.Args) == 0 {
		return writ.Errorf(writ.CodeArgumentsInvalid, "the image names no program").
			WithHint("set command: [\"program\", …]")
	}
	return nil
}

// WithoutFileLimit removes containerd's limit of 1,024 open files, which is too low for databases.
func WithoutFileLimit(_ context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
	s.Process.Rlimits = nil
	return nil
}

// WithoutCmdline hides the command line of the host's kernel, which may contain a token.
func WithoutCmdline(_ context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
	s.Linux.MaskedPaths = append(s.Linux.MaskedPaths, "/proc/cmdline")
	return nil
}

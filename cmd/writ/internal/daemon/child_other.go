//go:build !linux

package daemon

import "os/exec"

// runBound runs a child until it ends. Where the kernel cannot end it with this process it survives when this one is killed.
func runBound(cmd *exec.Cmd) error { return cmd.Run() }

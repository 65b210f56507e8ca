//go:build !linux

package redisd

import "os/exec"

// runBound runs a child until it ends. It survives the death of this process, because the system offers no way to bind
// it.
func runBound(cmd *exec.Cmd) error { return cmd.Run() }

//go:build !linux

package redisd

import "os/exec"

// runBound runs a child until it ends. Unlike on Linux, the child survives the death of this process.
func runBound(cmd *exec.Cmd) error { return cmd.Run() }

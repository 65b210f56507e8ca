//go:build !linux

package confine

import (
	"errors"
	"os/exec"
)

// Start refuses: only Linux has what processes are confined by.
func Start(*exec.Cmd, Cell) error { return errors.New("processes are confined on Linux only") }

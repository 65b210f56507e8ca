//go:build !linux

package evaluator

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// confine fails: the limits of a child are mandatory, and only Linux has effective limits.
func confine() (Layers, error) { return nil, errors.New("children are confined on Linux only") }

func cpuUsed() time.Duration { return 0 }

func cpuOf(int) time.Duration { return 0 }

func yieldTo(int) {}

func attributes() *syscall.SysProcAttr { return nil }

func ownBinary() (string, error) { return os.Executable() }

//go:build !linux

package confine

import (
	"context"
	"errors"
	"io"
	"os/exec"
)

var errSystem = errors.New("processes are confined on Linux only")

// Start returns an error: the mechanisms exist on Linux only.
func Start(*exec.Cmd, Cell) error { return errSystem }

// Landlock returns an error.
func Landlock() (int, error) { return 0, errSystem }

// Holds returns an error.
func Holds() error { return errSystem }

// RunsAs returns false.
func RunsAs(int, uint32) bool { return false }

// OfThisHost returns false.
func OfThisHost(int) bool { return false }

// Processes returns nil.
func Processes(uint32) ([]int, error) { return nil, nil }

func processes(func(uint32) bool) (map[uint32][]int, error) { return nil, nil }

func contained(int) bool { return false }

// End is a no-op.
func End(context.Context, uint32) error { return nil }

// Claim returns an error.
func (a *Accounts) Claim(string) (io.Closer, error) { return nil, errSystem }

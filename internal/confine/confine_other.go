//go:build !linux

package confine

import (
	"context"
	"errors"
	"io"
	"os/exec"
)

var errSystem = errors.New("processes are confined on Linux only")

// Start refuses: only Linux has what processes are confined by.
func Start(*exec.Cmd, Cell) error { return errSystem }

// Landlock says that there is none.
func Landlock() (int, error) { return 0, errSystem }

// Holds says that no sandbox does.
func Holds() error { return errSystem }

// RunsAs knows nobody.
func RunsAs(int, uint32) bool { return false }

// OfThisHost knows none.
func OfThisHost(int) bool { return false }

// Processes finds none.
func Processes(uint32) ([]int, error) { return nil, nil }

func processes(func(uint32) bool) (map[uint32][]int, error) { return nil, nil }

func contained(int) bool { return false }

// End has nothing to end.
func End(context.Context, uint32) error { return nil }

// Claim refuses.
func (a *Accounts) Claim(string) (io.Closer, error) { return nil, errSystem }

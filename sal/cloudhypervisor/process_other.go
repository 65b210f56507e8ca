//go:build !linux

package cloudhypervisor

import (
	"context"
	"os"

	"writ"
	"writ/internal/confine"
)

const farthest = 0

// held is a stub: machines need Linux.
type held struct {
	pid     int
	started uint64
}

func elsewhere() error {
	return writ.Errorf(writ.CodeDriverMissing, "machines need Linux").WithHint("make them on a node that runs Linux")
}

func hold(int) (*held, error)              { return nil, elsewhere() }
func (h *held) release()                   {}
func (h *held) ended() bool                { return true }
func (h *held) wait(context.Context) error { return elsewhere() }
func (h *held) terminate() error           { return elsewhere() }
func (h *held) kill() error                { return elsewhere() }
func argumentsOf(int) []string             { return nil }
func thisBoot() (string, error)            { return "", elsewhere() }
func listener(string) (int, error)         { return 0, nil }
func listenAt(string) (*os.File, error)    { return nil, elsewhere() }
func setTapOwner(string, uint32) error     { return elsewhere() }

func punch(*os.File, int64, int64) error               { return elsewhere() }
func withArguments(func([]string) bool) ([]int, error) { return nil, elsewhere() }

func spawn(confine.Cell, string, string, []string, *os.File, ...*os.File) (*held, error) {
	return nil, elsewhere()
}

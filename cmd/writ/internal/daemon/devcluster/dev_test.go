package devcluster

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"writ"
	"writ/cmd/writ/internal/daemon"
	"writ/identity"
)

// TestADevelopmentClusterEndsWithinFiveSeconds adds up the waits at the end: the jobs of all nodes in parallel, then
// the requests of four supervisors and of the coordinator in turn. All other work at the end takes milliseconds.
//
// Promise: Recovery: `writ dev` ends within seconds of Ctrl-C, also with open runs and requests; interrupted work
// restarts at the next start.
// How: Jobs have 2 s, and requests half a second at each supervisor and the coordinator.
// Also: TestEndlessRequestIsCut, TestDevEndsSoonWithRunsOpen.
func TestADevelopmentClusterEndsWithinFiveSeconds(t *testing.T) {
	if most := devGrace + 5*devRequestGrace; most > 4500*time.Millisecond {
		t.Errorf("it may wait for %s", most)
	}
}

// A start with a different number of datacenters creates new ones. The earlier ones stay in every list, so the log
// names them.
func TestADevelopmentClusterNamesTheDatacentersThatItDoesNotStart(t *testing.T) {
	roster := new(identity.Roster)
	for _, name := range []string{"local", "dc1", "dc2", "dc3"} {
		roster.Datacenters = append(roster.Datacenters, identity.Datacenter{Datacenter: writ.Datacenter{Name: name}})
	}
	for number, want := range map[int][]string{1: {"dc1", "dc2", "dc3"}, 2: {"local", "dc3"}, 3: {"local"}} {
		if got := New(Config{Datacenters: number}).notStarted(roster); !slices.Equal(got, want) {
			t.Errorf("--dcs %d does not start %v, want %v", number, got, want)
		}
	}
}

func TestSecondDevOfOneDirectoryIsRefusedAndLeavesTheConfiguration(t *testing.T) {
	data := t.TempDir()
	lock, err := daemon.LockStore(data, devKeyFile)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := daemon.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := New(Config{Data: data, Listener: listener, Datacenters: 1, Nodes: 1, Log: slog.New(slog.DiscardHandler), Note: func(string, ...any) {},
		Ready: func(Running) { t.Error("it serves") }})
	if err := d.Run(t.Context()); writ.CodeOf(err) != writ.CodeConflict {
		t.Errorf("%v, want CONFLICT", err)
	}
	if _, err := os.Stat(filepath.Join(data, devClientFile)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("client.yaml: %v, want none", err)
	}
	if err := lock.Close(); err != nil {
		t.Error(err)
	}
}

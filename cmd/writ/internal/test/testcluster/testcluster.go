// Package testcluster runs clusters of real processes for tests: a coordinator, and datacenters with supervisors and
// nodes with simulated drivers. Processes are started as in docs/tutorial.md, and can be killed and restarted. The
// package knows how to start processes and how to observe them from outside. It must not know the purpose of a test.
package testcluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"writ"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/config"
	"writ/coord/api"
	"writ/identity"
	"writ/internal/test/testenv"
)

// Patience limits waits for events that never come. It is more than ten times the longest time that writ promises for
// an event.
const Patience = 2 * time.Minute

// Cluster is a cluster of real processes, one per role.
type Cluster struct {
	Workspace
	URL    string   // of the coordinator
	Public string   // the coordinator's URL for supervisors, set before Found; URL if ""
	Rate   string   // --project-rate of the coordinator, set before Found; unlimited if ""
	Coord  []string // additional flags of the coordinator, set before Found
	Client *client.Client
	Procs  map[string]*Proc // by name: coord, a datacenter, a datacenter's node

	kept  bool                // whether the directory and its logs outlive the test
	lines map[string][]string // by process: its ready text, then its flags
}

// Empty returns a cluster without processes, in a temporary directory.
func Empty(t testing.TB, env ...string) *Cluster {
	t.Helper()
	return newProcessCluster(t, Binary(t), env...)
}

// New creates a cluster and starts its coordinator, in a temporary directory.
func New(t testing.TB, env ...string) *Cluster {
	t.Helper()
	s := Empty(t, env...)
	s.Found()
	return s
}

// NewIn creates a cluster and starts its coordinator, in a directory that the test manages.
func NewIn(t testing.TB, dir string, env ...string) *Cluster {
	t.Helper()
	s := Empty(t, env...)
	s.Dir, s.kept = dir, true
	s.Found()
	return s
}

// NewTagged works like New, with a program that is built with the build tags `tags`.
func NewTagged(t testing.TB, tags ...string) *Cluster {
	t.Helper()
	s := newProcessCluster(t, Binary(t, tags...))
	s.Found()
	return s
}

func newProcessCluster(t testing.TB, program string, env ...string) *Cluster {
	t.Helper()
	return &Cluster{
		Workspace: Workspace{T: t, Dir: t.TempDir(), bin: program, env: append(env, testenv.Maker(t))},
		Procs:     map[string]*Proc{}, lines: map[string][]string{},
	}
}

// Found creates the cluster and starts its coordinator.
func (s *Cluster) Found() {
	t := s.T
	t.Helper()
	if s.URL == "" {
		s.URL = fmt.Sprintf("http://127.0.0.1:%d", testenv.FreePort(t))
	}
	s.Writ("init", "--data", "cluster", "--new-key", "--name", "alice", "--coordinator", s.URL)
	s.Start("coord", "is listening",
		append([]string{"coord", "--data", "cluster", "--listen", strings.TrimPrefix(s.URL, "http://"),
			"--public-url", cmp.Or(s.Public, s.URL), "--project-rate", cmp.Or(s.Rate, "0")}, s.Coord...)...)
	file, err := config.Load(filepath.Join(s.Dir, "cluster", "client.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	one, err := file.Choose("", config.Context{})
	if err != nil {
		t.Fatal(err)
	}
	if s.Client, err = client.New(one, filepath.Join(s.Dir, "cluster"), client.Keys{}); err != nil {
		t.Fatal(err)
	}
}

// AlsoAt adds an address of the coordinator to the roster, such as the address of a Wire or an impostor.
func (s *Cluster) AlsoAt(address string) {
	s.T.Helper()
	_, err := s.Client.Roster.Amend(s.T.Context(), func(next *identity.Roster) error {
		next.Coordinators[0].URLs = append(next.Coordinators[0].URLs, address)
		return nil
	})
	if err != nil {
		s.T.Fatal(err)
	}
}

// On returns the same cluster for a network namespace that the test created. Its commands and processes run there, with
// an additional environment.
func (s *Cluster) On(namespace string, env ...string) *Cluster {
	on := *s
	on.host, on.env = namespace, slices.Concat(s.env, env)
	return &on
}

// In returns the same cluster for a subtest. The subtest must not start processes, because they would end with it.
func (s *Cluster) In(t testing.TB) *Cluster {
	in := *s
	in.T = t
	return &in
}

// Start starts a process and returns when its output contains the text `until`.
func (s *Cluster) Start(name, until string, args ...string) *Proc {
	s.T.Helper()
	s.Prepare(name, until, args...)
	p := s.Launch(name)
	s.Await(p, until)
	return p
}

// Prepare sets the flags of a process and the output that marks it as ready.
func (s *Cluster) Prepare(name, until string, args ...string) {
	s.lines[name] = append([]string{until}, args...)
}

// Launch starts a process with its prepared flags and does not wait until it is ready. The process must not be running.
// Output is also appended to NAME.log in the cluster's directory. env is added to the environment.
func (s *Cluster) Launch(name string, env ...string) *Proc {
	s.T.Helper()
	p := &Proc{Cmd: s.Command(s.lines[name][1:]...), changed: make(chan struct{}, 1), ended: make(chan struct{})}
	p.Cmd.Env = append(p.Cmd.Env, env...)
	log, err := os.OpenFile(filepath.Join(s.Dir, name+".log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		s.T.Fatal(err)
	}
	said := io.MultiWriter(log, p)
	p.Cmd.Stdout, p.Cmd.Stderr = said, said
	if err := p.Cmd.Start(); err != nil {
		s.T.Fatal(errors.Join(err, log.Close()))
	}
	go func() {
		p.Err = p.Cmd.Wait()
		log.Close()
		close(p.ended)
	}()
	if s.Procs[name] == nil {
		s.T.Cleanup(func() {
			s.Procs[name].kill()
			if s.T.Failed() && !s.kept {
				said, _ := os.ReadFile(log.Name())
				s.T.Logf("%s said last:\n%s", name, tail(said))
			}
		})
	}
	s.Procs[name] = p
	return p
}

// Await waits until the output of a process contains a text.
func (s *Cluster) Await(p *Proc, until string) {
	s.T.Helper()
	late := time.After(Patience)
	for !strings.Contains(p.Said(), until) {
		select {
		case <-p.changed:
		case <-p.ended:
			s.T.Fatalf("%v ended: %v\n%s", p.Cmd.Args[1:], p.Err, p.Said())
		case <-late:
			s.T.Fatalf("%v did not print %q:\n%s", p.Cmd.Args[1:], until, p.Said())
		}
	}
}

// Kill sends SIGKILL to a process and waits for its exit.
func (s *Cluster) Kill(name string) {
	s.T.Helper()
	p := s.Procs[name]
	if err := p.Cmd.Process.Signal(syscall.SIGKILL); err != nil {
		s.T.Fatalf("kill %s: %v", name, err)
	}
	_ = p.Wait() // the error only reports the kill
}

// Restart starts a process with its prepared flags and waits until it is ready.
func (s *Cluster) Restart(name string) {
	s.T.Helper()
	s.Await(s.Launch(name), s.lines[name][0])
}

// Runs fails the test if a process has exited.
func (s *Cluster) Runs(names ...string) {
	s.T.Helper()
	for _, name := range names {
		select {
		case <-s.Procs[name].ended:
			s.T.Errorf("%s has ended: %v", name, s.Procs[name].Err)
		default:
		}
	}
}

// RestartFails starts a process with its prepared flags, waits for its exit and returns its output and exit code.
func (s *Cluster) RestartFails(name string) (said string, code int) {
	s.T.Helper()
	_, said, code = s.Try(s.lines[name][1:]...)
	return said, code
}

// Follow watches a run to its end and returns it. When the script logs line number line, Follow calls `at` once.
func (s *Cluster) Follow(id writ.RunID, line int, at func()) api.Run {
	s.T.Helper()
	ctx, stop := context.WithTimeout(s.T.Context(), Patience)
	defer stop()
	once := sync.OnceFunc(at)
	run, err := s.Client.Streams.Watch(ctx, id, client.Watcher{Event: func(e api.Event) {
		if e.Log != nil && e.Log.Ordinal == line {
			once()
		}
	}})
	if err != nil {
		s.T.Fatalf("watch %s: %v", id, err)
	}
	return run
}

// Succeeded fails the test unless the run succeeded according to its signed summary.
func (s *Cluster) Succeeded(run api.Run) writ.Summary {
	s.T.Helper()
	roster, err := s.Client.Roster.Newest(s.T.Context())
	if err != nil {
		s.T.Fatal(err)
	}
	summary, err := client.Outcome(roster, run)
	if err != nil {
		s.T.Fatal(err)
	}
	if summary.State != writ.RunSucceeded {
		s.T.Fatalf("run %s is %s: %+v", run.ID, summary.State, summary.Failure)
	}
	return summary
}

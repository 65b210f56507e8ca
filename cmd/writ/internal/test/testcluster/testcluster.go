// Package testcluster runs clusters of real processes for tests: a coordinator, and datacenters with supervisors and
// nodes with simulated drivers. Processes are started as in docs/tutorial.md, and can be killed and restarted. The
// package knows how to start processes and how to observe them from outside. It must not know the purpose of a test.
package testcluster

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
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
	"writ/sal/simulated"
)

// Patience limits waits for events that never come. It is more than ten times the slowest promise.
const Patience = 2 * time.Minute

// Cluster is a cluster of real processes, one per role.
type Cluster struct {
	Dir    string   // working directory of all commands; each process has a subdirectory with its name
	URL    string   // of the coordinator
	Public string   // the coordinator's URL for supervisors, set before Found; URL if ""
	Rate   string   // --project-rate of the coordinator, set before Found; unlimited if ""
	Coord  []string // additional flags of the coordinator, set before Found
	Client *client.Client
	Procs  map[string]*Proc // by name: coord, a datacenter, a datacenter's node

	T     testing.TB
	kept  bool // whether the directory and its logs outlive the test
	bin   string
	lines map[string][]string // flags of each process
	env   []string            // additional environment of all processes
	host  string              // network namespace of commands; the one of the test if ""
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

// NewTagged is New with a program that is built with tags.
func NewTagged(t testing.TB, tags ...string) *Cluster {
	t.Helper()
	s := newProcessCluster(t, Binary(t, tags...))
	s.Found()
	return s
}

func newProcessCluster(t testing.TB, program string, env ...string) *Cluster {
	t.Helper()
	return &Cluster{
		Dir: t.TempDir(), Procs: map[string]*Proc{}, T: t, bin: program, lines: map[string][]string{},
		env: append(env, testenv.Maker(t)),
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

// AlsoAt adds an address of the coordinator to the roster, such as the address of a wire or an impostor.
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

// Use sets the program for further processes and commands.
func (s *Cluster) Use(program string) { s.bin = program }

// In returns the same cluster for a subtest. The subtest must not start processes, because they would end with it.
func (s *Cluster) In(t testing.TB) *Cluster {
	in := *s
	in.T = t
	return &in
}

// saidMost limits the output of a process kept in memory, in bytes.
const saidMost = 256 << 10

// Proc is a process of writ.
type Proc struct {
	Cmd *exec.Cmd
	Err error // valid once ended is closed

	changed chan struct{}
	ended   chan struct{}
	mu      sync.Mutex
	out     []byte
}

// Write stores output of the process.
func (p *Proc) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case p.changed <- struct{}{}:
	default:
	}
	p.out = append(p.out, b...)
	if len(p.out) > 2*saidMost {
		p.out = append([]byte(nil), p.out[len(p.out)-saidMost:]...)
	}
	return len(b), nil
}

// Said returns the output. If it is long, Said returns only the end.
func (p *Proc) Said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return string(p.out)
}

// Ended reports whether the process has exited.
func (p *Proc) Ended() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// Wait waits for the process to exit and returns its error.
func (p *Proc) Wait() error {
	select {
	case <-p.ended:
		return p.Err
	case <-time.After(Patience):
		return errors.New("it does not end")
	}
}

// Start starts a process and returns when its output contains until.
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
		s.T.Cleanup(func() { s.end(name) })
	}
	s.Procs[name] = p
	return p
}

// end kills a process. If the test failed and its directory is removed, it logs the end of the output.
func (s *Cluster) end(name string) {
	p := s.Procs[name]
	if !p.Ended() {
		_ = p.Cmd.Process.Kill()
		<-p.ended
	}
	if !s.T.Failed() || s.kept {
		return
	}
	said, err := os.ReadFile(filepath.Join(s.Dir, name+".log"))
	if err != nil {
		said = []byte(p.Said())
	}
	s.T.Logf("%s said last:\n%s", name, tail(said))
}

// Limits of the output logged for each process of a failed test. A person can read this much for nine processes. A
// cluster in a directory of the test keeps the whole logs.
const (
	outputLines = 20
	outputBytes = 3 << 10
)

// tail returns the last lines of a log.
func tail(log []byte) []byte {
	lines := bytes.SplitAfter(log[max(0, len(log)-outputBytes):], []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-outputLines-1):], nil)
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

// Command returns a command of writ in the cluster, not yet started.
func (s *Cluster) Command(args ...string) *exec.Cmd {
	cmd := exec.Command(s.bin, args...)
	if s.host != "" {
		cmd = exec.Command(testenv.Need(s.T, "ip"), append([]string{"netns", "exec", s.host, s.bin}, args...)...)
	}
	cmd.Dir = s.Dir
	cmd.Env = []string{
		"HOME=" + s.Dir, "PATH=" + os.Getenv("PATH"), "WRIT_CONFIG=" + filepath.Join(s.Dir, "cluster", "client.yaml"),
	}
	cmd.Env = append(cmd.Env, s.env...)
	return cmd
}

// Writ runs a command that must succeed and returns its standard output.
func (s *Cluster) Writ(args ...string) string {
	s.T.Helper()
	out, said, code := s.Try(args...)
	if code != 0 {
		s.T.Fatalf("writ %s: exit %d\n%s", strings.Join(args, " "), code, said)
	}
	return out
}

// Try runs a command and returns its standard output, its standard error and its exit code.
func (s *Cluster) Try(args ...string) (out, said string, code int) {
	s.T.Helper()
	cmd := s.Command(args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return stdout.String(), stderr.String(), exit.ExitCode()
	}
	if err != nil {
		s.T.Fatal(err)
	}
	return stdout.String(), stderr.String(), 0
}

// Says repeats a command until it exits with the given code and its output contains all texts.
func (s *Cluster) Says(exit int, texts []string, args ...string) {
	s.T.Helper()
	var said string
	var code int
	is := func(context.Context) bool {
		var out string
		out, said, code = s.Try(args...)
		said = out + said
		return code == exit && !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(said, text) })
	}
	late := time.Now().Add(Patience)
	for !is(s.T.Context()) {
		if time.Now().After(late) {
			s.T.Fatalf("writ %s: exit %d, want %d and %q\n%s", strings.Join(args, " "), code, exit, texts, said)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// Script writes a script into the cluster's directory.
func (s *Cluster) Script(name, text string) {
	s.T.Helper()
	if err := os.WriteFile(filepath.Join(s.Dir, name), []byte(text), 0o600); err != nil {
		s.T.Fatal(err)
	}
}

// Submit submits a script and returns its run.
func (s *Cluster) Submit(args ...string) writ.RunID {
	s.T.Helper()
	return writ.RunID(strings.TrimSpace(s.Writ(append([]string{"submit", "--detach"}, args...)...)))
}

// Follow watches a run to its end and returns it. It calls at once at log line number line of the script.
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

// Until waits for a condition.
func (s *Cluster) Until(what string, is func(ctx context.Context) bool) {
	s.T.Helper()
	ctx, stop := context.WithTimeout(s.T.Context(), Patience)
	defer stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !is(ctx) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			s.T.Fatalf("%s: it never is", what)
		}
	}
}

// Effects counts the effects of simulated drivers on some nodes, by job key.
func (s *Cluster) Effects(nodes ...string) map[string]int {
	s.T.Helper()
	counts := map[string]int{}
	for _, node := range nodes {
		effects, err := simulated.ReadEffects(filepath.Join(s.Dir, node, "host", "simulated"))
		if err != nil {
			s.T.Fatal(err)
		}
		for _, e := range effects {
			counts[e.Key]++
		}
	}
	return counts
}

// Done counts the jobs of a run that took effect on some nodes.
func (s *Cluster) Done(id writ.RunID, nodes ...string) (n int) {
	s.T.Helper()
	for key := range s.Effects(nodes...) {
		if strings.HasPrefix(key, string(id)) {
			n++
		}
	}
	return n
}

// OnceEach fails the test unless exactly want jobs of a run took effect, each once.
func (s *Cluster) OnceEach(id writ.RunID, want int, nodes ...string) {
	s.T.Helper()
	have := 0
	for key, n := range s.Effects(nodes...) {
		if !strings.HasPrefix(key, string(id)) {
			continue
		}
		have++
		if n != 1 {
			s.T.Errorf("%s took effect %d times", key, n)
		}
	}
	if have != want {
		s.T.Errorf("%d jobs of run %s took effect, want %d", have, id, want)
	}
}

// Package testcluster is a cluster of real processes for tests: one coordinator, datacenters with their supervisors and nodes with simulated
// drivers, each started by hand as docs/tutorial.md says, killed and started again as a test wishes. It knows how processes are started
// and what can be seen of them from outside; it must not know what a test wants to prove.
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
	"writ/internal/testenv"
	"writ/sal/simulated"
)

// Patience ends a wait for something that never comes: ten times what the slowest promise allows, and more.
const Patience = 2 * time.Minute

// Cluster is a cluster of real processes, one per role.
type Cluster struct {
	Dir    string   // where every command is carried out; each process has a directory of its own name here
	URL    string   // of the coordinator
	Public string   // how supervisors reach the coordinator, set before it is founded; the same if ""
	Rate   string   // of one project's submissions, as --project-rate, set before it is founded; unbounded if ""
	Coord  []string // what the coordinator is told besides, set before the cluster is founded
	Client *client.Client
	Procs  map[string]*Proc // by name: coord, a datacenter, a datacenter's node

	T     testing.TB
	kept  bool // the directory outlives the test, and the logs with it
	bin   string
	lines map[string][]string // how each process was started
	env   []string            // of every process, besides what they need
	host  string              // network namespace in which commands are carried out; that of the test if ""
}

// Empty is a cluster where nothing runs yet, in a directory that is removed when the test ends.
func Empty(t testing.TB, env ...string) *Cluster {
	t.Helper()
	return newProcessCluster(t, Binary(t), env...)
}

// New founds a cluster and starts its coordinator, in a directory that is removed when the test ends.
func New(t testing.TB, env ...string) *Cluster {
	t.Helper()
	s := Empty(t, env...)
	s.Found()
	return s
}

// NewIn founds a cluster in a directory of the test, which decides what becomes of it, and starts its coordinator.
func NewIn(t testing.TB, dir string, env ...string) *Cluster {
	t.Helper()
	s := Empty(t, env...)
	s.Dir, s.kept = dir, true
	s.Found()
	return s
}

// NewTagged is New of the program that is built with tags.
func NewTagged(t testing.TB, tags ...string) *Cluster {
	t.Helper()
	s := newProcessCluster(t, Binary(t, tags...))
	s.Found()
	return s
}

func newProcessCluster(t testing.TB, program string, env ...string) *Cluster {
	t.Helper()
	return &Cluster{Dir: t.TempDir(), Procs: map[string]*Proc{}, T: t, bin: program, lines: map[string][]string{}, env: append(env, testenv.Maker(t))}
}

// Found founds the cluster of an empty cluster, and starts its coordinator.
func (s *Cluster) Found() {
	t := s.T
	t.Helper()
	if s.URL == "" {
		s.URL = fmt.Sprintf("http://127.0.0.1:%d", testenv.FreePort(t))
	}
	s.Writ("init", "--data", "cluster", "--new-key", "--name", "alice", "--coordinator", s.URL)
	s.Start("coord", "is listening", append([]string{"coord", "--data", "cluster", "--listen", strings.TrimPrefix(s.URL, "http://"),
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

// AlsoAt gives the coordinator one more address in the roster: that of a wire, or of somebody who answers in its place.
func (s *Cluster) AlsoAt(address string) {
	s.T.Helper()
	_, err := s.Client.Amend(s.T.Context(), func(next *identity.Roster) error {
		next.Coordinators[0].URLs = append(next.Coordinators[0].URLs, address)
		return nil
	})
	if err != nil {
		s.T.Fatal(err)
	}
}

// On is the same cluster seen from a network namespace, which the test has made: its commands and processes are carried out there, with more in
// their environment.
func (s *Cluster) On(namespace string, env ...string) *Cluster {
	on := *s
	on.host, on.env = namespace, slices.Concat(s.env, env)
	return &on
}

// Use takes another program for whatever is started from now on.
func (s *Cluster) Use(program string) { s.bin = program }

// In is the same cluster in a subtest, which must not start processes: they would end with it.
func (s *Cluster) In(t testing.TB) *Cluster {
	in := *s
	in.T = t
	return &in
}

// saidMost bounds what is kept in memory of the words of a process, in bytes.
const saidMost = 256 << 10

// Proc is one process of writ.
type Proc struct {
	Cmd *exec.Cmd
	Err error // once ended

	changed chan struct{}
	ended   chan struct{}
	mu      sync.Mutex
	out     []byte
}

// Write keeps what the process says.
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

// Said returns what it has written; of very much only the end.
func (p *Proc) Said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return string(p.out)
}

// Ended reports whether the process is gone.
func (p *Proc) Ended() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// Wait waits for its end and returns why it ended.
func (p *Proc) Wait() error {
	select {
	case <-p.ended:
		return p.Err
	case <-time.After(Patience):
		return errors.New("it does not end")
	}
}

// Start starts a process and returns when it has said something.
func (s *Cluster) Start(name, until string, args ...string) *Proc {
	s.T.Helper()
	s.Prepare(name, until, args...)
	p := s.Launch(name)
	s.Await(p, until)
	return p
}

// Prepare says how a process will be started, and what it says then.
func (s *Cluster) Prepare(name, until string, args ...string) {
	s.lines[name] = append([]string{until}, args...)
}

// Launch starts a process as it was started first, and does not wait for anything. It must not run any more. What it says is added to the
// file NAME.log of the cluster, too. env is what it has in its environment besides.
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

// end kills what runs under a name, and tells what it said last if the test has failed and nobody could read it later.
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

// What is told of a process after a failed test: of nine processes that is what somebody reads. A cluster in a directory of its own keeps all.
const (
	outputLines = 20
	outputBytes = 3 << 10
)

// tail returns the last lines of a log.
func tail(log []byte) []byte {
	lines := bytes.SplitAfter(log[max(0, len(log)-outputBytes):], []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-outputLines-1):], nil)
}

// Await waits until a process has said something.
func (s *Cluster) Await(p *Proc, until string) {
	s.T.Helper()
	late := time.After(Patience)
	for !strings.Contains(p.Said(), until) {
		select {
		case <-p.changed:
		case <-p.ended:
			s.T.Fatalf("%v ended: %v\n%s", p.Cmd.Args[1:], p.Err, p.Said())
		case <-late:
			s.T.Fatalf("%v does not say %q:\n%s", p.Cmd.Args[1:], until, p.Said())
		}
	}
}

// Kill ends a process with SIGKILL.
func (s *Cluster) Kill(name string) {
	s.T.Helper()
	p := s.Procs[name]
	if err := p.Cmd.Process.Signal(syscall.SIGKILL); err != nil {
		s.T.Fatalf("kill %s: %v", name, err)
	}
	_ = p.Wait() // the error says that it was killed
}

// Restart starts a process again as it was started first. What it said at first only once is not waited for.
func (s *Cluster) Restart(name string) {
	s.T.Helper()
	s.Await(s.Launch(name), s.lines[name][0])
}

// Runs fails the test if a process has ended.
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

// RestartFails starts a process again as it was started first, waits for its end, and returns what it said and its exit code.
func (s *Cluster) RestartFails(name string) (said string, code int) {
	s.T.Helper()
	_, said, code = s.Try(s.lines[name][1:]...)
	return said, code
}

// Command is a command of writ in the cluster, not yet started.
func (s *Cluster) Command(args ...string) *exec.Cmd {
	cmd := exec.Command(s.bin, args...)
	if s.host != "" {
		cmd = exec.Command(testenv.Need(s.T, "ip"), append([]string{"netns", "exec", s.host, s.bin}, args...)...)
	}
	cmd.Dir = s.Dir
	cmd.Env = []string{"HOME=" + s.Dir, "PATH=" + os.Getenv("PATH"), "WRIT_CONFIG=" + filepath.Join(s.Dir, "cluster", "client.yaml")}
	cmd.Env = append(cmd.Env, s.env...)
	return cmd
}

// Writ carries out a command that must succeed and returns what it prints.
func (s *Cluster) Writ(args ...string) string {
	s.T.Helper()
	out, said, code := s.Try(args...)
	if code != 0 {
		s.T.Fatalf("writ %s: exit %d\n%s", strings.Join(args, " "), code, said)
	}
	return out
}

// Try carries out a command and returns its output, what it said besides, and its exit code.
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

// Says waits until a command says all of some texts, on whatever output, with an exit code.
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

// Submit hands a script in and returns its run.
func (s *Cluster) Submit(args ...string) writ.RunID {
	s.T.Helper()
	return writ.RunID(strings.TrimSpace(s.Writ(append([]string{"submit", "--detach"}, args...)...)))
}

// Follow watches a run to its end, calls at once with the n-th line that its script writes, and returns the run.
func (s *Cluster) Follow(id writ.RunID, line int, at func()) api.Run {
	s.T.Helper()
	ctx, stop := context.WithTimeout(s.T.Context(), Patience)
	defer stop()
	once := sync.OnceFunc(at)
	run, err := s.Client.Watch(ctx, id, client.Watcher{Event: func(e api.Event) {
		if e.Log != nil && e.Log.Ordinal == line {
			once()
		}
	}})
	if err != nil {
		s.T.Fatalf("watch %s: %v", id, err)
	}
	return run
}

// Succeeded fails the test unless the run did, by the word that its supervisor has signed.
func (s *Cluster) Succeeded(run api.Run) writ.Summary {
	s.T.Helper()
	roster, err := s.Client.Roster(s.T.Context())
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

// Effects counts what simulated drivers did on some nodes, by the key of the job.
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

// OnceEach fails the test unless there were so many effects of a run, each once.
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

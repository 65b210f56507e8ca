package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"writ"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/config"
	"writ/coord/api"
	"writ/internal/testenv"
	"writ/runner/queue/redisqueue"
	"writ/sal/simulated"
)

// patience ends a wait for something that never comes: ten times what the slowest promise allows, and more.
const patience = 2 * time.Minute

// shared is the program, built once without the race detector: with it, the children of the evaluator do not start.
var shared struct {
	once sync.Once
	dir  string
	err  error
}

func binary() (string, error) {
	shared.once.Do(func() {
		if shared.dir, shared.err = os.MkdirTemp("", "writ-e2e-"); shared.err != nil {
			return
		}
		if out, err := exec.Command("go", "build", "-o", shared.dir, ".").CombinedOutput(); err != nil {
			shared.err = fmt.Errorf("build: %w\n%s", err, out)
		}
	})
	return filepath.Join(shared.dir, "writ"), shared.err
}

// site is a cluster of real processes, one per role, started by hand as docs/tutorial.md says.
type site struct {
	t      *testing.T
	bin    string
	dir    string
	url    string // of the coordinator
	client *client.Client
	procs  map[string]*proc
	lines  map[string][]string // how each process was started
	env    []string            // of every process, besides what they need
}

// newSite founds a cluster and starts its coordinator.
func newSite(t *testing.T, env ...string) *site {
	t.Helper()
	bin, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, bin: bin, dir: t.TempDir(), procs: map[string]*proc{}, lines: map[string][]string{}, env: env}
	s.url = fmt.Sprintf("http://127.0.0.1:%d", testenv.FreePort(t))
	s.writ("init", "--data", "cluster", "--new-key", "--name", "alice", "--coordinator", s.url)
	s.start("coord", "is listening", "coord", "--data", "cluster", "--listen", strings.TrimPrefix(s.url, "http://"))
	file, err := config.Load(filepath.Join(s.dir, "cluster", "client.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	one, err := file.Choose("", config.Context{})
	if err != nil {
		t.Fatal(err)
	}
	if s.client, err = client.New(one, filepath.Join(s.dir, "cluster"), client.Keys{}); err != nil {
		t.Fatal(err)
	}
	return s
}

// datacenter adds a datacenter with its supervisor and so many nodes, all with simulated drivers at a speed.
func (s *site) datacenter(name string, redis string, nodes int, speed string) {
	s.t.Helper()
	door := fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(s.t))
	add := s.start("add "+name, "Start the supervisor", "dc", "add", name, "--region", "here", "--label", "name="+name, "--token-file", name+".token")
	s.start(name, "is listening", "supervisor", "--data", name, "--dc", name, "--coordinator", s.url, "--redis", redis, "--listen", door,
		"--join", "@"+name+".token")
	if err := add.wait(); err != nil {
		s.t.Fatalf("dc add %s: %v\n%s", name, err, add.said())
	}
	s.until("the datacenter is connected", func(ctx context.Context) bool {
		list, err := api.Answer[api.DatacenterList](s.client.API.ListDatacenters(ctx))
		for _, d := range list.Items {
			if d.Name == name && d.Placeable {
				return err == nil
			}
		}
		return false
	})
	// Nodes have no login but the accounts that their supervisor makes.
	ours := redisqueue.Server{URL: redis}.WithoutLogin().URL
	for i := range nodes {
		node := fmt.Sprintf("%s-n%d", name, i+1)
		token := s.writ("token", "create", "--dc", name)
		if err := os.WriteFile(filepath.Join(s.dir, node+".token"), []byte(token), 0o600); err != nil {
			s.t.Fatal(err)
		}
		s.start(node, "has joined", "runner", "--data", node, "--name", node, "--supervisor", "http://"+door, "--redis", ours,
			"--join", "@"+node+".token", "--drivers", "simulated", "--simulate-speed", speed, "--memory-mib", "65536", "--cpus", "32", "--disk-gib", "1000")
	}
}

// proc is one process of writ.
type proc struct {
	cmd     *exec.Cmd
	changed chan struct{}
	ended   chan struct{}
	err     error // once ended

	mu  sync.Mutex
	out bytes.Buffer
}

// Write keeps what the process says.
func (p *proc) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case p.changed <- struct{}{}:
	default:
	}
	return p.out.Write(b)
}

func (p *proc) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

func (p *proc) wait() error {
	select {
	case <-p.ended:
		return p.err
	case <-time.After(patience):
		return errors.New("it does not end")
	}
}

// start starts a process and returns when it has said something.
func (s *site) start(name, until string, args ...string) *proc {
	s.t.Helper()
	s.lines[name] = append([]string{until}, args...)
	p := &proc{cmd: s.command(args...), changed: make(chan struct{}, 1), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p, p
	if err := p.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	s.procs[name] = p
	s.t.Cleanup(func() {
		select {
		case <-p.ended:
		default:
			_ = p.cmd.Process.Kill()
			<-p.ended
		}
		if s.t.Failed() {
			s.t.Logf("%s said:\n%s", name, p.said())
		}
	})
	s.await(p, until)
	return p
}

// await waits until a process has said something.
func (s *site) await(p *proc, until string) {
	s.t.Helper()
	late := time.After(patience)
	for !strings.Contains(p.said(), until) {
		select {
		case <-p.changed:
		case <-p.ended:
			s.t.Fatalf("%v ended: %v\n%s", p.cmd.Args[1:], p.err, p.said())
		case <-late:
			s.t.Fatalf("%v does not say %q:\n%s", p.cmd.Args[1:], until, p.said())
		}
	}
}

// kill ends a process with SIGKILL.
func (s *site) kill(name string) {
	s.t.Helper()
	p := s.procs[name]
	if err := p.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		s.t.Fatalf("kill %s: %v", name, err)
	}
	_ = p.wait() // the error says that it was killed
}

// restart starts a process again as it was started first. What it said at first only once is not waited for.
func (s *site) restart(name string) {
	s.t.Helper()
	line := s.lines[name]
	s.start(name, line[0], line[1:]...)
}

func (s *site) command(args ...string) *exec.Cmd {
	cmd := exec.Command(s.bin, args...)
	cmd.Dir = s.dir
	cmd.Env = []string{"HOME=" + s.dir, "PATH=" + os.Getenv("PATH"), "WRIT_CONFIG=" + filepath.Join(s.dir, "cluster", "client.yaml")}
	cmd.Env = append(cmd.Env, s.env...)
	return cmd
}

// writ carries out a command that must succeed and returns what it prints.
func (s *site) writ(args ...string) string {
	s.t.Helper()
	out, said, code := s.try(args...)
	if code != 0 {
		s.t.Fatalf("writ %s: exit %d\n%s", strings.Join(args, " "), code, said)
	}
	return out
}

// try carries out a command and returns its output, what it said besides, and its exit code.
func (s *site) try(args ...string) (out, said string, code int) {
	s.t.Helper()
	cmd := s.command(args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return stdout.String(), stderr.String(), exit.ExitCode()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return stdout.String(), stderr.String(), 0
}

// script writes a script into the site's directory.
func (s *site) script(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// submit hands a script in and returns its run.
func (s *site) submit(args ...string) writ.RunID {
	s.t.Helper()
	return writ.RunID(strings.TrimSpace(s.writ(append([]string{"submit", "--detach"}, args...)...)))
}

// follow watches a run to its end, calls at once with the n-th line that its script writes, and returns the run.
func (s *site) follow(id writ.RunID, line int, at func()) api.Run {
	s.t.Helper()
	ctx, stop := context.WithTimeout(s.t.Context(), patience)
	defer stop()
	once := sync.OnceFunc(at)
	run, err := s.client.Watch(ctx, id, client.Watcher{Event: func(e api.Event) {
		if e.Log != nil && e.Log.Ordinal == line {
			once()
		}
	}})
	if err != nil {
		s.t.Fatalf("watch %s: %v", id, err)
	}
	return run
}

// succeeded fails the test unless the run did, by the word that its supervisor has sealed.
func (s *site) succeeded(run api.Run) writ.Summary {
	s.t.Helper()
	roster, err := s.client.Roster(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	summary, err := client.Outcome(roster, run)
	if err != nil {
		s.t.Fatal(err)
	}
	if summary.State != writ.RunSucceeded {
		s.t.Fatalf("run %s is %s: %+v", run.ID, summary.State, summary.Failure)
	}
	return summary
}

// until waits for a condition.
func (s *site) until(what string, is func(ctx context.Context) bool) {
	s.t.Helper()
	ctx, stop := context.WithTimeout(s.t.Context(), patience)
	defer stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !is(ctx) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			s.t.Fatalf("%s: it never is", what)
		}
	}
}

// effects counts what simulated drivers did on some nodes, by the key of the job.
func (s *site) effects(nodes ...string) map[string]int {
	s.t.Helper()
	counts := map[string]int{}
	for _, node := range nodes {
		effects, err := simulated.ReadEffects(filepath.Join(s.dir, node, "host", "simulated"))
		if err != nil {
			s.t.Fatal(err)
		}
		for _, e := range effects {
			counts[e.Key]++
		}
	}
	return counts
}

// onceEach fails the test unless there were so many effects of a run, each once.
func (s *site) onceEach(id writ.RunID, want int, nodes ...string) {
	s.t.Helper()
	have := 0
	for key, n := range s.effects(nodes...) {
		if !strings.HasPrefix(key, string(id)) {
			continue
		}
		have++
		if n != 1 {
			s.t.Errorf("%s took effect %d times", key, n)
		}
	}
	if have != want {
		s.t.Errorf("%d jobs of run %s took effect, want %d", have, id, want)
	}
}

// silent is a log for what runs in the test's own process.
var silent = slog.New(slog.DiscardHandler)

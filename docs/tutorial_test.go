// Package docs_test runs the examples of the manual.
package docs_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"writ/internal/test/testenv"
)

// guard limits the wait for an event. The slowest step takes a few seconds.
const guard = 2 * time.Minute

// TestTutorial runs the commands of tutorial.md in order. The info string of a fence sets the terminal:
//
//	sh                          in the reader's shell; must succeed
//	sh terminal=NAME until=TEXT in another terminal; continues when the terminal has shown the text
//	sh stop=NAME                after Ctrl-C in that terminal
//
// Promise: Plans, scripts and manuals: The tutorial is correct.
// How: A test types its commands and compares the output.
func TestTutorial(t *testing.T) {
	for _, tool := range []string{"redis-server", "ssh-keygen", "curl"} {
		testenv.Need(t, tool)
	}
	text, err := os.ReadFile("tutorial.md")
	if err != nil {
		t.Fatal(err)
	}
	r := newReader(t)
	var shown string
	for _, f := range fences(r.relocate(string(text))) {
		switch {
		case f.language == "text":
			f.compare(t, shown)
		case f.attributes["terminal"] != "":
			r.open(f)
		default:
			if name := f.attributes["stop"]; name != "" {
				r.terminal(name).interrupt()
			}
			if name := f.attributes["ended"]; name != "" {
				r.terminal(name).wantSuccess()
			}
			shown = r.shell.run(f)
		}
	}
}

// fence is a code block.
type fence struct {
	language   string
	attributes map[string]string
	line       int
	text       string
}

var (
	opening   = regexp.MustCompile("^```(\\w+)(.*)$")
	attribute = regexp.MustCompile(`(\w+)=("[^"]*"|\S+)`)
)

func fences(text string) (all []fence) {
	var open *fence
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSuffix(line, "\n")
		m := opening.FindStringSubmatch(line)
		switch {
		case open == nil && m != nil:
			open = &fence{language: m[1], attributes: map[string]string{}, line: number}
			for _, a := range attribute.FindAllStringSubmatch(m[2], -1) {
				open.attributes[a[1]] = strings.Trim(a[2], `"`)
			}
		case open != nil && line == "```":
			all = append(all, *open)
			open = nil
		case open != nil:
			open.text += line + "\n"
		}
	}
	return all
}

// compare checks that the pieces of the text between "…" and line ends occur in the output in order.
func (f fence) compare(t *testing.T, shown string) {
	t.Helper()
	rest := shown
	for _, piece := range strings.FieldsFunc(f.text, func(r rune) bool { return r == '…' || r == '\n' }) {
		_, after, found := strings.Cut(rest, strings.TrimSpace(piece))
		if !found {
			t.Fatalf("tutorial.md:%d: the output lacks %q:\n%s", f.line, piece, shown)
		}
		rest = after
	}
}

// reader follows the tutorial in a temporary directory and on free ports.
type reader struct {
	t         *testing.T
	dir       string
	env       []string
	shell     *shell
	terminals map[string]*terminal
}

func newReader(t *testing.T) *reader {
	r := &reader{t: t, dir: t.TempDir(), terminals: map[string]*terminal{}}
	own := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "WRIT_") })
	r.env = append(own, testenv.Maker(t), "CI=true", "HOME="+r.dir, "XDG_CONFIG_HOME="+r.dir, "XDG_STATE_HOME="+r.dir, "SSH_AUTH_SOCK=",
		// Omit debug information, which takes half of the link time.
		"GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -ldflags=-w"),
		fmt.Sprintf("WRIT_LISTEN=127.0.0.1:%d", testenv.FreePort(t))) // the default address
	for _, v := range []string{"GOPATH", "GOMODCACHE", "GOCACHE"} { // otherwise derived from HOME
		out, err := exec.Command("go", "env", v).Output()
		if err != nil {
			t.Fatal(err)
		}
		r.env = append(r.env, v+"="+strings.TrimSpace(string(out)))
	}
	r.shell = newShell(t, r.dir, r.env)
	t.Cleanup(func() {
		for _, terminal := range r.terminals {
			terminal.interrupt()
		}
	})
	return r
}

// relocate replaces the checkout and the ports of the text.
func (r *reader) relocate(text string) string {
	checkout, err := filepath.Abs("..")
	if err != nil {
		r.t.Fatal(err)
	}
	text = strings.ReplaceAll(text, "go build -o tutorial/", "go build -C "+checkout+" -o "+r.dir+"/tutorial/")
	ports := map[string]string{}
	return regexp.MustCompile(`(127\.0\.0\.1:|--port )(\d+)`).ReplaceAllStringFunc(text, func(s string) string {
		i := strings.LastIndexAny(s, ": ") + 1
		if ports[s[i:]] == "" {
			ports[s[i:]] = strconv.Itoa(testenv.FreePort(r.t))
		}
		return s[:i] + ports[s[i:]]
	})
}

func (r *reader) terminal(name string) *terminal {
	r.t.Helper()
	if r.terminals[name] == nil {
		r.t.Fatalf("tutorial.md has no terminal %s", name)
	}
	return r.terminals[name]
}

// open runs a fence in another terminal, in the folder of the tutorial.
func (r *reader) open(f fence) {
	r.t.Helper()
	name := f.attributes["terminal"]
	folder := filepath.Join(r.dir, "tutorial")
	cmd := exec.Command("sh", "-e", "-c", f.text)
	cmd.Dir = folder
	cmd.Env = append(r.env, "PATH="+filepath.Join(folder, "bin")+":"+os.Getenv("PATH"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C must reach only the terminal's processes
	term := &terminal{t: r.t, name: name, cmd: cmd, changed: make(chan struct{}, 1), ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = term, term
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	go func() {
		term.err = cmd.Wait()
		close(term.ended)
	}()
	r.terminals[name] = term
	term.await(f.attributes["until"])
}

// terminal is a terminal window with a running command.
type terminal struct {
	t       *testing.T
	name    string
	cmd     *exec.Cmd
	changed chan struct{}
	ended   chan struct{}
	err     error // valid once ended is closed

	mu   sync.Mutex
	text bytes.Buffer
}

// Write appends output of the command.
func (s *terminal) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default:
	}
	return s.text.Write(p)
}

func (s *terminal) shown() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func (s *terminal) await(text string) {
	s.t.Helper()
	late := time.After(guard)
	for !strings.Contains(s.shown(), text) {
		select {
		case <-s.changed:
		case <-s.ended:
			s.t.Fatalf("terminal %s ended before it showed %q: %v\n%s", s.name, text, s.err, s.shown())
		case <-late:
			s.t.Fatalf("terminal %s does not show %q:\n%s", s.name, text, s.shown())
		}
	}
}

func (s *terminal) wantSuccess() {
	s.t.Helper()
	select {
	case <-s.ended:
	case <-time.After(guard):
		s.t.Fatalf("terminal %s does not end:\n%s", s.name, s.shown())
	}
	if s.err != nil {
		s.t.Fatalf("terminal %s: %v\n%s", s.name, s.err, s.shown())
	}
}

// interrupt sends Ctrl-C. If the command does not exit, it is killed and the test fails.
func (s *terminal) interrupt() {
	s.t.Helper()
	select {
	case <-s.ended:
		return // its pid may be reused
	default:
		_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGINT)
	}
	select {
	case <-s.ended:
	case <-time.After(guard):
		_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
		s.t.Errorf("terminal %s does not end on Ctrl-C:\n%s", s.name, s.shown())
		<-s.ended
	}
}

// shell is the reader's shell. Variables that a fence exports are visible in later ones.
type shell struct {
	t     *testing.T
	cmd   *exec.Cmd
	dir   string // working directory of the fences
	in    io.WriteCloser
	lines *bufio.Scanner
	done  int
}

func newShell(t *testing.T, dir string, env []string) *shell {
	cmd := exec.Command("sh", "-e")
	cmd.Dir, cmd.Env = dir, env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &shell{t: t, cmd: cmd, dir: t.TempDir(), in: in, lines: bufio.NewScanner(out)}
	t.Cleanup(func() {
		s.kill()
		_ = cmd.Wait() // the error only reports the kill
	})
	return s
}

// run runs a fence and returns its output. The shell exits at the first failing command.
func (s *shell) run(f fence) string {
	s.t.Helper()
	s.done++
	path := filepath.Join(s.dir, strconv.Itoa(s.done)+".sh")
	if err := os.WriteFile(path, []byte(f.text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	const mark = "the end of the fence"
	if _, err := fmt.Fprintf(s.in, ". %s </dev/null\necho; echo '%s'\n", path, mark); err != nil {
		s.t.Fatal(err)
	}
	ended, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		s.watch(ended)
	}()
	defer func() { close(ended); <-watched }()
	var shown strings.Builder
	for s.lines.Scan() {
		if s.lines.Text() == mark {
			s.t.Logf("tutorial.md:%d\n%s", f.line, shown.String())
			return shown.String()
		}
		shown.WriteString(s.lines.Text() + "\n")
	}
	s.t.Fatalf("tutorial.md:%d: a command failed or hangs:\n%s", f.line, shown.String())
	return ""
}

// watch kills the shell if its processes use no CPU time. On a busy machine a compiler may be slow, but it progresses.
func (s *shell) watch(ended <-chan struct{}) {
	every := time.NewTicker(guard)
	defer every.Stop()
	for had := used(s.cmd.Process.Pid); ; {
		select {
		case <-ended:
			return
		case <-every.C:
			now := used(s.cmd.Process.Pid)
			if now == had {
				s.kill()
				return
			}
			had = now
		}
	}
}

// used returns the CPU time of a process group in clock ticks, 0 if it is unavailable.
func used(group int) (ticks int64) {
	paths, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if err != nil || len(fields) < 15 || fields[2] != strconv.Itoa(group) {
			continue
		}
		for _, field := range fields[11:15] { // user and system time, of the process and of its exited children
			n, _ := strconv.ParseInt(field, 10, 64)
			ticks += n
		}
	}
	return ticks
}

// kill kills the shell and its processes.
func (s *shell) kill() { _ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL) }

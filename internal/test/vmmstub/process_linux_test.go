package vmmstub_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"writ/internal/test/testenv"
	"writ/internal/test/vmmstub"
	"writ/internal/test/vmmstub/guest"
)

// guard limits a wait that should take milliseconds.
const guard = 30 * time.Second

// program is the program under test.
type program struct {
	path    string
	genuine bool // not a stub
	release vmmstub.Release
}

// process is a running program of a test.
type process struct {
	t *testing.T
	program
	dir    string // for sockets and files; its path is short enough for a socket
	socket string
	events string
	cmd    *exec.Cmd
	stderr *bytes.Buffer
	ended  bool
	kernel string // kernel of its machines; made if empty
	disks  map[string]bool
}

// newProcess prepares a stub in its own directory, without starting it.
func newProcess(t *testing.T) *process {
	t.Helper()
	return prepare(t, stub(t, vmmstub.Played()))
}

// prepare prepares a program in its own directory.
func prepare(t *testing.T, program program) *process {
	t.Helper()
	dir, err := os.MkdirTemp("", "vmm")
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, program: program, dir: dir, socket: filepath.Join(dir, "api"), events: filepath.Join(dir, "events")}
	t.Cleanup(func() {
		p.kill()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return p
}

// play starts a stub that listens on its socket.
func play(t *testing.T) *process {
	t.Helper()
	return start(t, stub(t, vmmstub.Played()))
}

// start starts a program that listens on its socket.
func start(t *testing.T, program program) *process {
	t.Helper()
	p := prepare(t, program)
	p.start()
	return p
}

// start starts the program and waits until it listens. It leaves no connection open, because the program counts them.
func (p *process) start(args ...string) {
	p.t.Helper()
	p.spawn(append([]string{"--api-socket", "path=" + p.socket, "--event-monitor", "path=" + p.events}, args...)...)
	for end := time.Now().Add(guard); ; time.Sleep(time.Millisecond) {
		conn, err := net.Dial("unix", p.socket)
		if err == nil {
			p.leave(conn)
			return
		}
		if time.Now().After(end) {
			p.t.Fatalf("it does not listen: %v\n%s", err, p.stderr)
		}
	}
}

// leave closes a connection and waits until the program has closed it as well.
func (p *process) leave(conn net.Conn) {
	p.t.Helper()
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(guard)); err != nil {
		p.t.Fatal(err)
	}
	if err := conn.(*net.UnixConn).CloseWrite(); err != nil {
		p.t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, conn); err != nil {
		p.t.Fatalf("it keeps a connection that was closed: %v\n%s", err, p.stderr)
	}
}

func (p *process) spawn(args ...string) {
	p.t.Helper()
	p.stderr = &bytes.Buffer{}
	p.cmd = exec.Command(p.path, args...)
	p.cmd.Stderr, p.cmd.Stdout = p.stderr, io.Discard
	p.ended = false
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	cmd := p.cmd
	p.t.Cleanup(func() { // even if another one was started after it
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

// kill ends the program with SIGKILL.
func (p *process) kill() {
	if p.cmd == nil || p.ended {
		return
	}
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	p.ended = true
}

// code waits for the end of the program and returns its exit code, or -1 after a signal.
func (p *process) code() int {
	p.t.Helper()
	timer := time.AfterFunc(guard, func() { _ = p.cmd.Process.Kill() })
	defer timer.Stop()
	err := p.cmd.Wait()
	p.ended = true
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		p.t.Fatal(err)
	}
	return p.cmd.ProcessState.ExitCode()
}

// do sends a request on a new connection and returns status and body.
func (p *process) do(method, action, body string) (int, string) {
	p.t.Helper()
	status, text, err := p.try(method, "/api/v1/"+action, body)
	if err != nil {
		p.t.Fatalf("%s %s: %v\n%s", method, action, err, p.stderr)
	}
	return status, text
}

func (p *process) try(method, path, body string) (int, string, error) {
	client := http.Client{Timeout: guard, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", p.socket)
		},
	}}
	request, err := http.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	answer, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text), err
}

// must makes a request that must succeed.
func (p *process) must(action, body string) string {
	p.t.Helper()
	status, text := p.do("PUT", action, body)
	if status/100 != 2 {
		p.t.Fatalf("%s = %d %s", action, status, text)
	}
	return text
}

// info holds the fields of vm.info that tests use.
type info struct {
	State  string `json:"state"`
	Memory int64  `json:"memory_actual_size"`
	Config struct {
		CPUs  map[string]any   `json:"cpus"`
		Disks []map[string]any `json:"disks"`
		Net   []map[string]any `json:"net"`
	} `json:"config"`
	raw string
}

func (p *process) info() info {
	p.t.Helper()
	status, text := p.do("GET", "vm.info", "")
	in := info{raw: text}
	if status != 200 {
		p.t.Fatalf("vm.info = %d %s", status, text)
	}
	if err := json.Unmarshal([]byte(text), &in); err != nil {
		p.t.Fatal(err)
	}
	return in
}

// config returns the body of vm.create: one CPU, a kernel that waits, and more.
func (p *process) config(more string) string {
	p.t.Helper()
	p.kernelFile()
	return `{"cpus":{"boot_vcpus":1,"max_vcpus":4},"memory":{"size":134217728,"hotplug_size":268435456},"payload":{"kernel":"` + p.kernel +
		`"},"console":{"mode":"Off"},"serial":{"mode":"File","file":"` + filepath.Join(p.dir, "serial") + `"}` + more + `}`
}

// kernelFile returns the kernel of its machines.
func (p *process) kernelFile() string {
	p.t.Helper()
	if p.kernel == "" {
		p.kernel = guest.Tiny(p.t, guest.Wait)
	}
	return p.kernel
}

// file makes a file of size bytes.
func (p *process) file(name string, size int64) string {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, size)); err != nil {
		p.t.Fatal(err)
	}
	return path
}

// boot creates and boots a machine.
func (p *process) boot(more string) {
	p.t.Helper()
	p.must("vm.create", p.config(more))
	p.must("vm.boot", "")
}

// event waits for an event and returns its properties.
func (p *process) event(source, event string) map[string]string {
	p.t.Helper()
	for end := time.Now().Add(guestGuard); time.Now().Before(end); time.Sleep(time.Millisecond) {
		for _, e := range p.told() {
			if e.Source == source && e.Event == event {
				return e.Properties
			}
		}
	}
	p.t.Fatalf("no event %s %s in %v", source, event, p.told())
	return nil
}

type event struct {
	Timestamp  struct{ Secs, Nanos int64 }
	Source     string
	Event      string
	Properties map[string]string
}

// told returns the complete events in the file.
func (p *process) told() (events []event) {
	p.t.Helper()
	text, err := os.ReadFile(p.events)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		p.t.Fatal(err)
	}
	for d := json.NewDecoder(bytes.NewReader(text)); ; {
		var e event
		if err := d.Decode(&e); err != nil {
			return events
		}
		events = append(events, e)
	}
}

// withoutLost returns wanted without the last events that the real program lost. That program writes events in a
// separate thread, and may end before the thread is done.
func (p *process) withoutLost(wanted, reported []string) []string {
	if p.genuine && len(reported) < len(wanted) && slices.Equal(wanted[:len(reported)], reported) {
		return reported
	}
	return wanted
}

// names returns the names of the events.
func (p *process) names() (names []string) {
	for _, e := range p.told() {
		if e.Source != "virtio-device" {
			names = append(names, e.Source+"/"+e.Event)
		}
	}
	return names
}

// locked reports whether another process has a lock on a file.
func (p *process) locked(path string) bool {
	p.t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		p.t.Fatal(err)
	}
	defer f.Close()
	lock := unix.Flock_t{Type: unix.F_WRLCK}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &lock); err != nil {
		p.t.Fatal(err)
	}
	return lock.Type != unix.F_UNLCK
}

// gone returns an error if a process still has the directory of this one in its arguments.
func (p *process) gone(what string) error {
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return err
	}
	for _, line := range lines {
		text, err := os.ReadFile(line)
		if err == nil && bytes.Contains(text, []byte(p.dir)) {
			return errors.New(what + " still runs: " + line)
		}
	}
	return nil
}

// stub returns the stub of a release.
func stub(t *testing.T, release vmmstub.Release) program {
	t.Helper()
	return program{path: vmmstub.BuildOf(t, release), release: release}
}

// both calls a test with the stub of each release, and with the real program if it is on PATH, so that all behave the
// same. Guests of the real program are tiny and need only /dev/kvm.
func both(t *testing.T, test func(t *testing.T, program program)) {
	for _, release := range vmmstub.Releases {
		t.Run("stub of "+release.String(), func(t *testing.T) { test(t, stub(t, release)) })
	}
	t.Run("real", func(t *testing.T) {
		path := testenv.Need(t, "cloud-hypervisor")
		testenv.NeedKVM(t, 0)
		test(t, program{path, true, releaseOf(t, path)})
	})
}

// releaseOf returns the release that a program is or will be; --version has the last one of its source.
func releaseOf(t *testing.T, path string) (release vmmstub.Release) {
	t.Helper()
	_, said := start(t, program{path: path, genuine: true}).do("GET", "vmm.ping", "")
	var ping struct{ Version string }
	if err := json.Unmarshal([]byte(said), &ping); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(ping.Version, "%d.", &release); err != nil {
		t.Fatalf("%s has no version: %v", said, err)
	}
	return release
}

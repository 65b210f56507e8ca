package cloudhypervisor

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"writ"
	"writ/internal/testenv"
	"writ/internal/vmmstub"
	"writ/sal"
	"writ/sal/catalog"
	"writ/sal/saltest"
)

// machineSpec is of a machine without anything that it need not have.
var machineSpec = map[string]any{"cpus": int64(1), "memory_mib": int64(256), "kernel": saltest.RefTo(writ.KindImage, "linux")}

// fixture is a driver on a host of its own, with the stub.
type fixture struct {
	testing.TB
	*Driver
	host string
	setup
	time time.Time // as the driver sees it
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	return newFixtureOn(t, setup{program: vmmstub.Build(t), prepare: prepare})
}

// forEachFixture calls a test with a driver on the stub, and with one on the real cloud-hypervisor where that is on PATH.
func forEachFixture(t *testing.T, test func(t *testing.T, b *fixture)) {
	forEachSetup(t, func(t *testing.T, s setup) { test(t, newFixtureOn(t, s)) })
}

func newFixtureOn(t testing.TB, s setup) *fixture {
	t.Helper()
	host := testenv.Home(t, "w")
	if err := os.Chmod(host, 0o711); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { clear(t, host) })
	s.prepare(t, host)
	b := &fixture{TB: t, host: host, setup: s, time: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	b.reopen(s.program)
	return b
}

// reopen opens the driver anew, as a runner does that was replaced.
func (b *fixture) reopen(program string) {
	b.Driver = open(b.host, program, nil)
	b.Now = func() time.Time { return b.time }
}

func machine(name string) writ.ResourceID { return saltest.Resource(writ.KindMachine, name) }

// atOnce stops a machine whose guest does not mind its power button.
var atOnce = map[string]any{"grace_seconds": int64(0)}

// do carries out an operation on a machine, with a UID that follows from its name.
func (b *fixture) do(operation, name string, args map[string]any) (sal.Outcome, error) {
	b.Helper()
	o, ok := catalog.Lookup(operation)
	if !ok {
		b.Fatalf("there is no %s", operation)
	}
	if b.lame && operation == "machine.stop" && args == nil {
		args = atOnce
	}
	decoded, err := o.Decode(args)
	if err != nil {
		b.Fatal(err)
	}
	return b.Do(b.Context(), sal.Request{
		Operation: o, Resource: machine(name), UID: writ.UID("uid-" + name), Args: decoded, Key: "k", Progress: func(string) {},
	})
}

func (b *fixture) must(operation, name string, args map[string]any) map[string]any {
	b.Helper()
	o, err := b.do(operation, name, args)
	if err != nil {
		b.Fatalf("%s: %s: %v", operation, writ.CodeOf(err), err)
	}
	return o.Values
}

// refuses carries out an operation that must fail with a code and words.
func (b *fixture) refuses(operation, name string, args map[string]any, code writ.Code, words ...string) {
	b.Helper()
	_, err := b.do(operation, name, args)
	if writ.CodeOf(err) != code {
		b.Fatalf("%s: %s (%v), want %s", operation, writ.CodeOf(err), err, code)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			b.Errorf("%s does not say %q: %v", operation, word, err)
		}
	}
}

func (b *fixture) state(name string) string {
	b.Helper()
	seen, err := b.Observe(b.Context(), machine(name))
	if err != nil {
		b.Fatal(err)
	}
	return seen.State
}

func (b *fixture) record(name string) *sal.Record[own] {
	b.Helper()
	r, err := b.records().Get(machine(name))
	if err != nil || r == nil {
		b.Fatalf("there is no record of %s: %v", name, err)
	}
	return r
}

// change rewrites a record, as nobody does but a test.
func (b *fixture) change(name string, change func(o *own)) {
	b.Helper()
	r := b.record(name)
	change(&r.Own)
	if err := b.records().Put(r); err != nil {
		b.Fatal(err)
	}
}

// signal sends a signal to the process of a machine and, if it is to end or to stand still, waits for that.
func (b *fixture) signal(name string, s syscall.Signal, ends bool) {
	b.Helper()
	v, err := b.attend(b.record(name))
	if err != nil || v == nil {
		b.Fatalf("%s has no process: %v", name, err)
	}
	defer v.release()
	if err := v.Signal(s); err != nil {
		b.Fatal(err)
	}
	for s == unix.SIGSTOP && !standsStill(b, v.pid) && b.Context().Err() == nil {
		time.Sleep(time.Millisecond) // each thread stops when it comes to it, and the kernel tells nobody but the parent
	}
	if !ends {
		return
	}
	if err := v.wait(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// standsStill reports whether all threads of a process are stopped.
func standsStill(t testing.TB, pid int) bool {
	t.Helper()
	paths, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(paths) == 0 {
		t.Fatalf("process %d has no threads: %v", pid, err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err == nil && !strings.HasPrefix(string(text[bytes.LastIndexByte(text, ')')+1:]), " T") {
			return false
		}
	}
	return true
}

// keeps holds a machine against its record, which must find one thing, or nothing for "".
func (b *fixture) keeps(name, what string, mended bool) {
	b.Helper()
	drift, err := b.Keep(b.Context(), machine(name))
	switch {
	case err != nil:
		b.Fatal(err)
	case what == "" && len(drift) == 0:
	case what == "" || len(drift) != 1 || !strings.Contains(drift[0].What, what) || drift[0].Mended != mended:
		b.Errorf("it found %+v, want %q, mended: %v", drift, what, mended)
	}
}

// empty makes sure that nothing is left of any machine.
func (b *fixture) empty() {
	b.Helper()
	if left := traces(b, b.host); len(left) > 0 {
		b.Errorf("there are %q", left)
	}
	for _, dir := range []string{b.machines(), filepath.Join(b.Dir, "records")} {
		if entries, err := os.ReadDir(dir); len(entries) > 0 || err != nil && !os.IsNotExist(err) {
			b.Errorf("%s has %v, %v", dir, entries, err)
		}
	}
}

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
	"writ/internal/test/testenv"
	"writ/internal/test/vmmstub"
	"writ/sal"
	"writ/sal/catalog"
	"writ/sal/saltest"
)

// machineSpec is a minimal machine.
var machineSpec = map[string]any{"cpus": int64(1), "memory_mib": int64(256), "kernel": saltest.RefTo(writ.KindImage, "linux")}

// fixture is a driver on its own host, with the stub.
type fixture struct {
	testing.TB
	*Driver
	host string
	setup
	time time.Time // the driver's clock
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	return newFixtureOn(t, setup{program: vmmstub.Build(t), prepare: prepare})
}

// forEachFixture calls a test with a driver on the stub, and on the real cloud-hypervisor if that is on PATH.
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

// reopen replaces the driver, like a restarted runner.
func (b *fixture) reopen(program string) {
	b.Driver = open(b.host, program, nil)
	b.Now = func() time.Time { return b.time }
}

func machine(name string) writ.ResourceID { return saltest.Resource(writ.KindMachine, name) }

// atOnce stops a machine whose guest ignores its power button.
var atOnce = map[string]any{"grace_seconds": int64(0)}

// do executes an operation on a machine whose UID is derived from its name.
func (b *fixture) do(operation, name string, args map[string]any) (sal.Outcome, error) {
	b.Helper()
	o, ok := catalog.Lookup(operation)
	if !ok {
		b.Fatalf("unknown operation %s", operation)
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

// refuses executes an operation that must fail with a code and words.
func (b *fixture) refuses(operation, name string, args map[string]any, code writ.Code, words ...string) {
	b.Helper()
	_, err := b.do(operation, name, args)
	if writ.CodeOf(err) != code {
		b.Fatalf("%s: %s (%v), want %s", operation, writ.CodeOf(err), err, code)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			b.Errorf("%s: error lacks %q: %v", operation, word, err)
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
		b.Fatalf("record of %s: %v", name, err)
	}
	return r
}

// change edits a record directly.
func (b *fixture) change(name string, change func(o *own)) {
	b.Helper()
	r := b.record(name)
	change(&r.Own)
	if err := b.records().Put(r); err != nil {
		b.Fatal(err)
	}
}

// signal sends a signal to the process of a machine. If the process should end or stop, it waits for that.
func (b *fixture) signal(name string, s syscall.Signal, ends bool) {
	b.Helper()
	v, err := b.openProcess(b.record(name))
	if err != nil || v == nil {
		b.Fatalf("%s has no process: %v", name, err)
	}
	defer v.release()
	if err := v.Signal(s); err != nil {
		b.Fatal(err)
	}
	for s == unix.SIGSTOP && !standsStill(b, v.pid) && b.Context().Err() == nil {
		time.Sleep(time.Millisecond) // each thread stops on its own, and only the parent is notified
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

// keeps runs Keep, which must report exactly one drift with a text that contains what; "" means no drift.
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

// empty fails the test if anything of a machine is left.
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

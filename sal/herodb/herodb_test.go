//go:build linux

package herodb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/internal/test/testenv"
	"writ/sal"
	"writ/sal/directory"
	"writ/sal/needs"
	"writ/sal/saltest"
)

var (
	spec    = map[string]any{"memory_mib": int64(64)}
	nightly = map[string]any{"backup": "nightly"}
)

// with returns a copy of base with one changed field.
func with(base map[string]any, field string, v any) map[string]any {
	m := maps.Clone(base)
	m[field] = v
	return m
}

// driverOn returns the driver of a host.
func driverOn(t testing.TB, host string, step func(string)) *Driver {
	testenv.Cgroup(t, groupsOf(filepath.Join(host, "herodb")).Name)
	return &Driver{
		Dir: filepath.Join(host, "herodb"), Trees: &directory.Trees{Dir: filepath.Join(host, "data")}, Networks: networksOf(t, host), Step: step,
		Accounts: saltest.Accounts(host),
	}
}

// onNetworks are the steps that differ between a database on a network and a database on the host. The test interrupts
// a database on a network only at these steps. Package sal tests the writes of records.
var onNetworks = map[string]bool{
	"make the namespace": true, "release the network": true, "start the process": true, "end the process": true,
	"keep a snapshot": true, "delete a snapshot": true, "restore the tree": true, "remove the data": true,
}

// Promise: Databases: A runner killed at any step of a database leaves a state that the next call completes or
// removes; a deleted database leaves no process, group, namespace or file.
// How: The record precedes the process; processes are identified by program, path and start time.
func TestConformance(t *testing.T) {
	testenv.Need(t, "redis-server")
	for name, suite := range map[string]saltest.Suite{
		"on the host": {
			Make:      saltest.Step{Operation: "herodb.create", Args: spec},
			Mutable:   map[string]any{"memory_mib": int64(32), "size_gib": int64(2)},
			Immutable: with(spec, "persist", true),
			Steps:     []saltest.Step{{Operation: "herodb.rotate_secret"}},
		},
		"on a network": {
			Make: saltest.Step{Operation: "herodb.create", Args: map[string]any{
				"memory_mib": int64(16), "persist": true, "engines": []any{"redis-server"}, "network": saltest.RefTo(writ.KindNetwork, "front"),
			}},
			Steps: []saltest.Step{
				{Operation: "herodb.backup", Args: nightly},
				{Operation: "herodb.restore", Args: nightly},
				{Operation: "herodb.delete_backup", Args: nightly},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, network := suite.Make.Args["network"]
			if network {
				needNamespaces(t)
			}
			suite.Open = func(t testing.TB, host string, step func(string)) sal.Driver {
				return driverOn(t, host, func(name string) {
					if name == "write record" || (!network || onNetworks[name]) && !strings.HasSuffix(name, " records") && name != "rename record" {
						step(name)
					}
				})
			}
			suite.Clear, suite.Traces, suite.Sparse = wipe, traces, true
			saltest.Run(t, suite)
		})
	}
}

// The generated secret must be only in its file, and neither in the arguments and environment of the process nor in
// records, logs, configuration and results.
//
// Promise: Databases: The secret of a database is in one file for its runner's user and in no argument, environment,
// record, log or result.
// How: Engine users are in a file of hashes; engines that take secrets only as arguments need permission and get no
// secret of a script.
// Also: TestGivenPasswordIsStoredAsHash, TestWeakEngineServesOnlyIfNamed.
func TestTheSecretIsOnlyInItsFile(t *testing.T) {
	b := newFixture(t)
	values := b.do("herodb.create", spec, writ.ChangeCreated)
	a, err := jobOn(b.Driver, store).readAccess("access.json")
	if err != nil || len(a.Secret) != 43 {
		t.Fatalf("%d characters, %v", len(a.Secret), err)
	}
	seen := map[string]string{"the result": fmt.Sprint(values)}
	for _, name := range []string{"cmdline", "environ"} {
		path := fmt.Sprintf("/proc/%d/%s", b.pid().PID, name)
		text, err := os.ReadFile(path)
		if err != nil || len(text) == 0 {
			t.Fatal(path, err)
		}
		seen[path] = string(text)
	}
	err = filepath.WalkDir(b.host, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		info, _ := e.Info()
		switch {
		case filepath.Base(path) != "access.json":
			seen[path] = string(text)
		case info.Mode().Perm() != 0o600 || !strings.Contains(string(text), a.Secret):
			t.Errorf("%s: %s", path, info.Mode())
		}
		return err
	})
	if err != nil || len(seen) < 6 {
		t.Fatalf("%d entries seen, %v", len(seen), err)
	}
	for where, text := range seen {
		for _, secret := range []string{a.Secret, a.Driver} {
			if strings.Contains(text, secret) {
				t.Errorf("%s shows a secret", where)
			}
		}
	}
}

// The test also changes from a given password to a generated one.
func TestGivenPasswordIsStoredAsHash(t *testing.T) {
	b := newFixture(t)
	b.do("herodb.create", with(spec, "password", map[string]any{"secret": "db@1"}), writ.ChangeCreated)
	if _, err := b.login(givenPassword); err != nil {
		t.Error(err)
	}
	if a := b.secret(); a != "" {
		t.Errorf("the driver keeps %q", a)
	}
	b.refuse("herodb.rotate_secret", nil, writ.CodeResourceConflict)
	b.do("herodb.create", spec, writ.ChangeUpdated)
	if _, err := b.login(givenPassword); !refused(err, "WRONGPASS") {
		t.Errorf("the password that a script took away: %v", err)
	}
	b.client()
}

// The secret is rotated while a client is connected.
//
// Promise: Databases: A new secret of a database is valid at once without a pause, and the old one is refused.
// How: The engine reloads its users in the order file, record, engine.
func TestARotatedSecretClosesAndOpensWithoutAPause(t *testing.T) {
	b := newFixture(t)
	b.do("herodb.create", spec, writ.ChangeCreated)
	before, process := b.secret(), b.pid()
	values := b.do("herodb.rotate_secret", nil, writ.ChangeUpdated)
	if values["secret_version"] != int64(2) {
		t.Errorf("the version is %v", values["secret_version"])
	}
	if b.secret() == before || b.pid() != process {
		t.Error("the secret is the same, or the process another")
	}
	if _, err := b.login(before); !refused(err, "WRONGPASS") {
		t.Errorf("with the old secret: %v", err)
	}
	b.client()
	served, err := b.Process(t.Context(), store)
	if err != nil || served == nil {
		t.Fatalf("its process is %v, %v", served, err)
	}
	defer served.Close()
	if err := signal(process, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := served.Wait(t.Context()); err != nil { // like the runner
		t.Fatal(err)
	}
	b.keep()
	b.client() // after a restart as well
}

// The driver, conversely, can manage the server but cannot read data.
//
// Promise: Databases: Clients of a database can access all of the data and no server commands; the driver has the
// opposite rights.
// How: The users of the engine have separate rights.
func TestClientsHaveTheDataAndNotTheServer(t *testing.T) {
	b := newFixture(t)
	b.do("herodb.create", spec, writ.ChangeCreated)
	c := b.client()
	b.ask(c, "SET", "a", "1")
	b.ask(c, "EVAL", "return redis.call('INCR', 'a')", "0")
	b.ask(c, "CONFIG", "GET", "maxmemory")
	for _, words := range [][]string{
		{"CONFIG", "SET", "maxmemory", "0"}, {"SHUTDOWN", "NOSAVE"}, {"ACL", "SETUSER", "eve", "on", "nopass"}, {"REPLICAOF", "127.0.0.1", "1"},
		{"MODULE", "LIST"}, {"CONFIG", "REWRITE"}, {"BGSAVE"}, {"MIGRATE", "127.0.0.1", "1", "a", "0", "1000"},
	} {
		if _, err := c.ask(t.Context(), words...); !refused(err, "NOPERM") {
			t.Errorf("%v: %v", words, err)
		}
	}
	in, err := jobOn(b.Driver, store).serve(t.Context(), must(b.records().Get(store)))
	if err != nil {
		t.Fatal(err)
	}
	driver, err := in.dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer driver.close()
	if _, err := driver.ask(t.Context(), "GET", "a"); !refused(err, "NOPERM") {
		t.Errorf("the driver reads data: %v", err)
	}
	if _, err := b.login("guess"); !refused(err, "WRONGPASS") {
		t.Errorf("with a guess: %v", err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// The process is found even if the runner was killed before it recorded the process.
//
// Promise: Databases: A database survives its runner, and a process that ends is restarted with growing pauses.
// How: Its own session, and a check every half minute.
// Also: TestKilledProcessIsRestarted, TestRestartDelaysGrowToALimit.
func TestRestartedRunnerFindsItsDatabase(t *testing.T) {
	b := newFixture(t)
	b.do("herodb.create", spec, writ.ChangeCreated)
	b.ask(b.client(), "SET", "kept", "in memory")
	process := b.pid()
	b.changeRecord(func(o *own) { o.Process = pid{} })
	b.restart()
	if drift := b.keep(); len(drift) > 0 {
		t.Errorf("it says %+v", drift)
	}
	b.do("herodb.create", spec, writ.ChangeUnchanged)
	if b.pid() != process || b.own().Process != process {
		t.Errorf("it is served by %v, before by %v", b.pid(), process)
	}
	if v := b.ask(b.client(), "GET", "kept"); v != "in memory" {
		t.Errorf("it has %v", v)
	}
}

// A database that persists has its data; another one is empty. The delay grows each time.
func TestKilledProcessIsRestarted(t *testing.T) {
	for persist, want := range map[bool]any{true: "kept", false: nil} {
		t.Run(fmt.Sprintf("persist=%t", persist), func(t *testing.T) {
			b := newFixture(t)
			b.do("herodb.create", with(spec, "persist", persist), writ.ChangeCreated)
			b.ask(b.client(), "SET", "a", "kept")
			b.do("herodb.backup", nightly, writ.ChangeUpdated)
			for try := range 4 {
				p := b.pid()
				if err := signal(p, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
				b.until("it is gone", func() bool { return !jobOn(b.Driver, store).lives(p, b.own()) })
				if seen, err := b.Observe(t.Context(), store); err != nil || seen.State != stopped {
					t.Errorf("it is seen as %q, %v", seen.State, err)
				}
				drift := b.keep()
				if len(drift) != 1 || drift[0].Mended != (try < 2) {
					t.Errorf("the %d. time: %+v", try+1, drift)
				}
				if try >= 2 {
					// A request does not wait for the delay.
					b.do("herodb.create", with(spec, "persist", persist), writ.ChangeUnchanged)
				}
				if v := b.ask(b.client(), "GET", "a"); v != want {
					t.Errorf("the %d. time it has %v", try+1, v)
				}
			}
		})
	}
}

// A client writes during the backup.
//
// Promise: Databases: A backup is one moment of a running database, and a restore returns that moment without a
// secret.
// How: Writers wait while a snapshot is created, at most 20 s after their runner died.
func TestRestoreBringsBackTheBackup(t *testing.T) {
	for _, persist := range []bool{true, false} {
		t.Run(fmt.Sprintf("persist=%t", persist), func(t *testing.T) {
			b := newFixture(t)
			b.do("herodb.create", with(spec, "persist", persist), writ.ChangeCreated)
			c := b.client()
			for i := range 500 {
				b.ask(c, "SET", fmt.Sprint("key", i), "before")
			}
			ctx, stop := context.WithCancel(t.Context())
			written := make(chan int)
			go func() {
				n := 0
				defer func() { written <- n }()
				w, err := b.login(b.secret())
				for err == nil && ctx.Err() == nil {
					_, err = w.ask(context.Background(), "INCR", "counter") // blocks while the database is held
					n++
				}
				if err != nil {
					t.Error(err)
				}
			}()
			first := b.do("herodb.backup", nightly, writ.ChangeUpdated)
			stop()
			if <-written == 0 {
				t.Error("nobody wrote meanwhile")
			}
			if !cmp.Equal(first["backups"], []any{"nightly"}) {
				t.Errorf("the backups are %v", first["backups"])
			}
			counted := b.ask(c, "GET", "counter")
			b.ask(c, "FLUSHALL")
			b.ask(c, "SET", "after", "x")
			secret := b.secret()
			b.do("herodb.rotate_secret", nil, writ.ChangeUpdated)
			b.do("herodb.restore", nightly, writ.ChangeUpdated)
			if _, err := b.login(secret); !refused(err, "WRONGPASS") {
				t.Errorf("the restore brought the old secret back: %v", err)
			}
			c = b.client()
			if v := b.ask(c, "GET", "key499"); v != "before" {
				t.Errorf("restored it has %v", v)
			}
			if v := b.ask(c, "EXISTS", "after"); v != int64(0) {
				t.Error("restored database has a key written after the backup")
			}
			restored, _ := b.ask(c, "GET", "counter").(string)
			n, _ := strconv.Atoi(restored)
			if m, _ := strconv.Atoi(fmt.Sprint(counted)); n > m {
				t.Errorf("restored it counts %d, and never counted beyond %d", n, m)
			}
			b.ask(c, "SET", "new", "x")
		})
	}
	b := newFixture(t)
	b.do("herodb.create", spec, writ.ChangeCreated)
	b.do("herodb.backup", nightly, writ.ChangeUpdated)
	_, err := b.try("herodb.restore", map[string]any{"backup": "none"})
	if e := writ.AsError(err); e == nil || e.Code != writ.CodeResourceUnknown || e.Hint != "its backups: nightly" {
		t.Errorf("an unknown backup: %v", err)
	}
}

// The engine limits its memory, and the kernel does where the host supports it.
//
// Promise: Databases: Memory and disk of a database are limited; at a limit writ reports it, and with more space the
// database continues.
// How: maxmemory below a cgroup's limit, a quota on the tree.
// Also: TestFullDiskIsReportedAndRecovers, TestOnARealDiskAndNetwork.
func TestMemoryIsBounded(t *testing.T) {
	b := newFixture(t)
	b.do("herodb.create", with(spec, "memory_mib", int64(32)), writ.ChangeCreated)
	c := b.client()
	value, full := strings.Repeat("x", 1<<19), 0
	for i := range 64 {
		if _, err := c.ask(t.Context(), "SET", fmt.Sprint(i), value); refused(err, "OOM") {
			full++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if full < 10 || full > 40 {
		t.Errorf("%d of 64 values of 512 KiB do not fit in 32 MiB", full)
	}
	b.refuse("herodb.create", with(spec, "memory_mib", int64(16)), writ.CodeQuotaExceeded)
	process := b.pid()
	b.do("herodb.create", with(spec, "memory_mib", int64(128)), writ.ChangeUpdated)
	b.ask(c, "SET", "more", value)
	if b.pid() != process {
		t.Error("a change of memory restarted the engine")
	}
	all, err := b.groups().All()
	if err != nil {
		t.Fatal(err)
	}
	if dir := all[store.HostName()]; b.groups().About() != "nothing" {
		if in, err := b.groups().Has(store.HostName(), process.PID); !in || err != nil {
			t.Errorf("the process is not in %s: %v", dir, err)
		}
		limit, err := os.ReadFile(filepath.Join(dir, "memory.max"))
		if errors.Is(err, fs.ErrNotExist) {
			limit, err = os.ReadFile(filepath.Join(dir, "memory.limit_in_bytes"))
		}
		if err != nil || strings.TrimSpace(string(limit)) != strconv.Itoa(128<<20) {
			t.Errorf("the kernel bounds it to %q, %v", limit, err)
		}
	}
	if u, err := b.Usage(t.Context(), store); err != nil || u.MemoryMiB != 128 || u.DiskGiB != 1 || u.Received < 10<<20 || u.Sent == 0 {
		t.Errorf("it uses %+v, %v", u, err)
	}
}

// The engine does not count the memory of clients' scripts, so the kernel kills it. The error has the reason.
//
// Promise: Machines and the overlay: An engine that exceeds the memory of its database is killed alone, reported, and
// restarted with its data.
// How: Its cgroup limits it as for machines; its children end with it.
func TestEngineOverItsLimitIsKilledAlone(t *testing.T) {
	b := newFixture(t)
	if lacking, _ := b.groups().Lacks(); len(lacking) > 0 {
		t.Skipf("no groups bound %v here", lacking)
	}
	b.do("herodb.create", spec, writ.ChangeCreated)
	p := b.pid()
	if _, err := b.client().ask(t.Context(), "EVAL", "local t = {} for i = 1, 1000 do t[i] = string.rep('x', 1000000) .. i end return #t", "0"); err == nil {
		t.Fatal("64 MiB hold a gigabyte")
	}
	b.until("it is gone", func() bool { return !jobOn(b.Driver, store).lives(p, b.own()) })
	drift := b.keep()
	if len(drift) != 1 || !drift[0].Mended || !strings.Contains(drift[0].What, "64 MiB") {
		t.Errorf("it says %+v", drift)
	}
	b.client()
	if drift := b.keep(); len(drift) > 0 {
		t.Errorf("drift later = %+v", drift)
	}
}

func TestMissingEngineErrorHasInstallHint(t *testing.T) {
	b := newFixture(t)
	e := b.refuse("herodb.create", with(spec, "version", "99"), writ.CodeDriverMissing)
	if !strings.Contains(e.Message, "instead of 99") {
		t.Errorf("another version: %v", e)
	}
	b.Look = func(string) (string, error) { return "", exec.ErrNotFound }
	e = b.refuse("herodb.create", with(spec, "engines", []any{"redis-server"}), writ.CodeDriverMissing)
	if !strings.Contains(e.Hint, "apt-get install -y redis-server") {
		t.Errorf("no engine: %v (%s)", e, e.Hint)
	}
	if err := needs.Refusal(needs.Examine(t.Context(), "herodb", b.Needs())); writ.CodeOf(err) != writ.CodeDriverMissing {
		t.Errorf("a runner would not refuse databases: %v", err)
	}
	b.Look = nil
	b.Overlay = overlay(netip.MustParsePrefix("400:cafe:1:2::/64"))
	e = b.refuse("herodb.create", spec, writ.CodeDriverMissing)
	if !strings.Contains(e.Message, "400:cafe:1:2") || !strings.Contains(e.Hint, "mycelium") {
		t.Errorf("an overlay that does not run: %v (%s)", e, e.Hint)
	}
	if records, _, err := b.records().List(); err != nil || len(records) > 0 {
		t.Errorf("left are %v, %v", records, err)
	}
}

// Programs would take it for an option.
func TestHyphenSecretSharesItsArgument(t *testing.T) {
	for _, e := range engines {
		for _, a := range e.arguments(instance{access: access{Secret: "-secret", Driver: "-driver"}}) {
			if a == "-secret" || a == "-driver" {
				t.Errorf("%s is started with %q", e.name, a)
			}
		}
	}
}

// The port is taken when it is chosen, and when a process restarts.
func TestAForeignProcessOnThePortIsNotOurs(t *testing.T) {
	b := newFixture(t)
	port := testenv.FreePort(t)
	b.FirstPort, b.LastPort = port, port
	foreign := must(net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)))
	b.refuse("herodb.create", spec, writ.CodeQuotaExceeded)
	foreign.Close()
	b.do("herodb.create", spec, writ.ChangeCreated)
	p := b.pid()
	if err := signal(p, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	b.until("it is gone", func() bool { return !jobOn(b.Driver, store).lives(p, b.own()) })
	foreign = must(net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)))
	if e := b.refuse("herodb.create", spec, writ.CodeDriverFailed); !strings.Contains(e.Hint, "ss -ltnp") {
		t.Errorf("%v (%s)", e, e.Hint)
	}
	if drift := b.keep(); len(drift) != 1 || drift[0].Mended || !strings.Contains(drift[0].What, "another process listens") {
		t.Errorf("it says %+v", drift)
	}
	foreign.Close()
	b.do("herodb.create", spec, writ.ChangeUnchanged)
	b.client()
}

// Another process may listen on the port between its check and the start of the engine.
func TestPortTakenBeforeTheStartIsReplaced(t *testing.T) {
	b := newFixture(t)
	var foreign net.Listener
	b.Step = func(name string) {
		if name == "make the tree" && foreign == nil {
			record := must(b.records().Get(store))
			foreign = must(net.Listen("tcp", net.JoinHostPort(record.Own.Host, strconv.FormatInt(record.Own.Port, 10))))
		}
	}
	b.do("herodb.create", spec, writ.ChangeCreated)
	defer foreign.Close()
	if taken := foreign.Addr().(*net.TCPAddr).Port; b.own().Port == int64(taken) {
		t.Errorf("port %d is used by another process", taken)
	}
	b.client()
	b.do("herodb.delete", nil, writ.ChangeDeleted)
}

// The record has a PID that another process has now.
//
// Promise: Databases: writ leaves foreign processes, ports and user numbers alone, and lost data is not replaced by
// an empty database.
// How: It adopts only processes with its program and path.
// Also: TestAForeignProcessOnThePortIsNotOurs, TestMissingDataIsNotReplaced.
func TestReusedPIDIsNotSignalled(t *testing.T) {
	b := newFixture(t)
	b.do("herodb.create", spec, writ.ChangeCreated)
	bystander := exec.Command("sleep", "600")
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- bystander.Wait() }()
	t.Cleanup(func() {
		_ = bystander.Process.Kill()
		<-ended
	})
	process := b.pid()
	now, err := look(bystander.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	for name, wrong := range map[string]pid{
		"another program":         now.pid,
		"started at another time": {PID: process.PID, Start: process.Start - 1, Boot: process.Boot},
		"before the host booted":  {PID: process.PID, Start: process.Start, Boot: "another"},
	} {
		b.changeRecord(func(o *own) { o.Process = wrong })
		b.do("herodb.create", spec, writ.ChangeUnchanged)
		if b.own().Process != process {
			t.Errorf("%s: the record names %+v", name, b.own().Process)
		}
	}
	b.changeRecord(func(o *own) { o.Process = now.pid })
	b.do("herodb.delete", nil, writ.ChangeDeleted)
	select {
	case <-ended:
		t.Error("deleting the database ended another process")
	default:
	}
}

// The engine rejects writes, the driver reports the reason, and the engine continues by itself when the disk has space.
func TestFullDiskIsReportedAndRecovers(t *testing.T) {
	b := newFixture(t)
	disk := testenv.NewDisk(t, filepath.Join(b.host, "small"), 16)
	b.Trees = &directory.Trees{Dir: filepath.Join(disk.Dir, "data")}
	t.Cleanup(func() { wipe(t, b.host) }) // before the disk is unmounted
	b.do("herodb.create", with(spec, "persist", true), writ.ChangeCreated)
	c := b.client()
	disk.Fill()
	value := strings.Repeat("x", 1<<16)
	b.until("the disk is full", func() bool {
		_, err := c.ask(t.Context(), "SET", "a", value)
		return refused(err, "MISCONF")
	})
	if drift := b.keep(); len(drift) != 1 || !strings.Contains(drift[0].What, "disk is full") {
		t.Errorf("it says %+v", drift)
	}
	b.refuse("herodb.backup", nightly, writ.CodeDiskFull)
	disk.Free()
	b.until("it writes again", func() bool {
		_, err := c.ask(t.Context(), "SET", "a", "b")
		return err == nil
	})
	if drift := b.keep(); len(drift) != 0 {
		t.Errorf("drift with free space = %+v", drift)
	}
	b.do("herodb.delete", nil, writ.ChangeDeleted)
	disk.Fill()
	b.refuse("herodb.create", with(spec, "persist", true), writ.CodeDiskFull)
	disk.Free()
	if records, _, err := b.records().List(); err != nil || len(records) > 0 {
		t.Errorf("left are %v, %v", records, err)
	}
}

// The node's program changes its version.
//
// Promise: Databases: An engine is upgraded only at a script's request, also if the programs of its node change.
// How: The version is recorded, and a copy of the program kept.
func TestAnEngineIsUpgradedOnlyWhenAsked(t *testing.T) {
	b := newFixture(t)
	real := testenv.Need(t, "redis-server")
	made := b.do("herodb.create", with(spec, "persist", true), writ.ChangeCreated)
	b.ask(b.client(), "SET", "a", "old")
	newer := filepath.Join(b.host, "bin", "redis-server")
	script := "#!/bin/sh\n[ \"$1\" = --version ] && echo 'Redis server v=99.1.0 sha=0' && exit\nexec " + real + " \"$@\"\n"
	if err := errors.Join(os.Mkdir(filepath.Dir(newer), 0o755), os.WriteFile(newer, []byte(script), 0o755)); err != nil {
		t.Fatal(err)
	}
	b.Look = func(name string) (string, error) {
		if name == "redis-server" {
			return newer, nil
		}
		return "", exec.ErrNotFound
	}
	b.restart()
	if drift := b.keep(); len(drift) != 1 || drift[0].Mended || !strings.Contains(drift[0].What, "has redis-server 99.1.0 now") {
		t.Errorf("it says %+v", drift)
	}
	p := b.pid()
	if err := signal(p, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	b.until("it is gone", func() bool { return !jobOn(b.Driver, store).lives(p, b.own()) })
	if drift := b.keep(); len(drift) != 2 || !drift[0].Mended {
		t.Errorf("it says %+v", drift)
	}
	if exe := must(os.Readlink(fmt.Sprintf("/proc/%d/exe", b.pid().PID))); !strings.HasPrefix(exe, b.Dir) {
		t.Errorf("it is served by %s", exe)
	}
	values := b.do("herodb.create", with(with(spec, "persist", true), "version", made["version"]), writ.ChangeUpdated)
	if values["version"] != made["version"] {
		t.Errorf("it is of version %v", values["version"])
	}
	b.refuse("herodb.create", with(with(spec, "persist", true), "version", "98"), writ.CodeDriverMissing)
	values = b.do("herodb.create", with(with(spec, "persist", true), "version", "99.1"), writ.ChangeUpdated)
	if values["version"] != "99.1.0" || b.ask(b.client(), "GET", "a") != "old" {
		t.Errorf("values after the upgrade = %v", values)
	}
	if drift := b.keep(); len(drift) != 0 {
		t.Errorf("drift after the upgrade = %+v", drift)
	}
	b.do("herodb.delete", nil, writ.ChangeDeleted)
	if left := must(os.ReadDir(filepath.Join(b.Dir, "engines"))); len(left) > 0 {
		t.Errorf("copies of engines are left: %v", left)
	}
}

// A retry finds the database until its record is removed. Everything else must be gone before that step.
func TestADeleteRemovesTheRecordLast(t *testing.T) {
	b := newFixture(t)
	b.do("herodb.create", spec, writ.ChangeCreated)
	reached := false
	b.Step = func(name string) {
		if name != "remove record" {
			return
		}
		reached = true
		for _, dir := range []string{"databases", "engines"} {
			if left, err := os.ReadDir(filepath.Join(b.Dir, dir)); len(left) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("found %v, %v in %s", left, err, dir)
			}
		}
	}
	b.do("herodb.delete", nil, writ.ChangeDeleted)
	if !reached {
		t.Error("the step was not reached")
	}
}

// The record is lost; process, directory, data and cgroup remain.
func TestAnUnrecordedEngineIsAnOrphan(t *testing.T) {
	b := newFixture(t)
	b.do("herodb.create", spec, writ.ChangeCreated)
	want := []string{"process", "directory", "tree"}
	if b.groups().About() != "nothing" {
		want = append(want, "cgroup")
	}
	if orphans, err := b.Orphans(t.Context()); err != nil || len(orphans) > 0 {
		t.Errorf("%v, %v", orphans, err)
	}
	if err := b.records().Remove(store); err != nil {
		t.Fatal(err)
	}
	var kinds []string
	orphans, err := b.Orphans(t.Context())
	for _, o := range orphans {
		kinds = append(kinds, o.Kind)
	}
	slices.Sort(kinds)
	slices.Sort(want)
	if diff := cmp.Diff(want, kinds); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	testenv.Empties(t, saltest.Remedies(t, b))
}

// A database whose tree was removed does not start empty.
func TestMissingDataIsNotReplaced(t *testing.T) {
	b := newFixture(t)
	b.do("herodb.create", with(spec, "persist", true), writ.ChangeCreated)
	p := b.pid()
	if err := errors.Join(signal(p, syscall.SIGKILL), b.Trees.Remove(t.Context(), store.HostName())); err != nil {
		t.Fatal(err)
	}
	b.until("it is gone", func() bool { return !jobOn(b.Driver, store).lives(p, b.own()) })
	if drift := b.keep(); len(drift) != 1 || drift[0].Mended || !strings.Contains(drift[0].What, "data of herodb store is gone") {
		t.Errorf("it says %+v", drift)
	}
	b.refuse("herodb.create", with(spec, "persist", true), writ.CodeDriverRefused)
	b.do("herodb.delete", nil, writ.ChangeDeleted)
}

func TestALogIsCutOff(t *testing.T) {
	b := newFixture(t)
	b.do("herodb.create", spec, writ.ChangeCreated)
	path := jobOn(b.Driver, store).in(logName)
	long := append(bytes.Repeat([]byte("x"), maxLog), "the end"...)
	if err := os.WriteFile(path, long, 0o600); err != nil {
		t.Fatal(err)
	}
	b.keep()
	if info := must(os.Stat(path)); info.Size() > 0 {
		t.Errorf("the log has %d bytes", info.Size())
	}
	if old := must(os.ReadFile(path + ".old")); len(old) != keptLog || !bytes.HasSuffix(old, []byte("the end")) {
		t.Errorf("%d bytes of it were kept", len(old))
	}
}

// The log of a database that cannot be made is deleted, so the error quotes it.
func TestHintNamesAnExistingLog(t *testing.T) {
	b := newFixture(t)
	program := filepath.Join(b.host, "bin", "redis-server")
	if err := os.Mkdir(filepath.Dir(program), 0o755); err != nil {
		t.Fatal(err)
	}
	b.Look = func(string) (string, error) { return program, nil }
	real := testenv.Need(t, "redis-server")
	serves := func(end string) {
		t.Helper()
		script := "#!/bin/sh\n[ \"$1\" = --version ] && exec " + real + " --version\n" + end
		if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	const many = "seq --format 'line %g of 12' 12; exit 1\n"
	log, redis := jobOn(b.Driver, store).in(logName), with(spec, "engines", []any{"redis-server"})

	serves(many)
	failed := b.refuse("herodb.create", redis, writ.CodeDriverFailed)
	if strings.Contains(failed.Hint, log) || !strings.Contains(failed.Error(), "line 1 of 12\n") || !strings.Contains(failed.Error(), "line 12 of 12") {
		t.Errorf("of a database that is not made: %v (%s)", failed, failed.Hint)
	}

	serves("exec " + real + " \"$@\"\n")
	b.do("herodb.create", redis, writ.ChangeCreated)
	// The engine cannot write its data there.
	if err := os.Mkdir(filepath.Join(b.own().Tree, dumpName), 0o755); err != nil {
		t.Fatal(err)
	}
	names := func(failed *writ.Error, word string) {
		t.Helper()
		if said := string(must(os.ReadFile(log))); !strings.Contains(failed.Hint, log) || !strings.Contains(said, word) {
			t.Errorf("%v (%s), and %s contains %s", failed, failed.Hint, log, said)
		}
	}
	names(b.refuse("herodb.backup", nightly, writ.CodeDiskFull), "Is a directory")
	serves(many)
	p := b.pid()
	if err := errors.Join(os.Remove(filepath.Join(b.own().Tree, dumpName)), signal(p, syscall.SIGKILL)); err != nil {
		t.Fatal(err)
	}
	b.until("it is gone", func() bool { return !jobOn(b.Driver, store).lives(p, b.own()) })
	failed = b.refuse("herodb.create", redis, writ.CodeDriverFailed)
	if strings.Contains(failed.Error(), "line 7 of 12") || !strings.Contains(failed.Error(), "line 8 of 12") {
		t.Errorf("it quotes another part of the log than its end: %v", failed)
	}
	names(failed, "line 1 of 12")
}

// The arguments of a process appear a moment after the process.
func TestStartingProcessCountsAsAlive(t *testing.T) {
	b := newFixture(t)
	b.do("herodb.create", spec, writ.ChangeCreated)
	cat := &exec.Cmd{Path: must(exec.LookPath("cat")), Args: []string{""}}
	in := must(cat.StdinPipe())
	if err := cat.Start(); err != nil {
		t.Fatal(err)
	}
	p := must(look(cat.Process.Pid))
	if !p.starting || !jobOn(b.Driver, store).lives(p.pid, b.own()) {
		t.Errorf("it is %+v", p)
	}
	if err := errors.Join(in.Close(), cat.Wait()); err != nil {
		t.Error(err)
	}
	if jobOn(b.Driver, store).lives(p.pid, b.own()) {
		t.Error("it has ended, and lives")
	}
}

// A process occupies its port until it has ended, so a replacement could not listen.
func TestAProcessLivesUntilItHasEnded(t *testing.T) {
	j := jobOn(newFixture(t).Driver, store)
	o := own{Engine: "redis-server"}
	for range 50 {
		engine := exec.Command(o.Engine, "--port", "0", "--save", "", "--unixsocket", filepath.Join(t.TempDir(), "socket"), "--set-proc-title", "no", "--pidfile", j.in("pid"))
		if err := engine.Start(); err != nil {
			t.Fatal(err)
		}
		p := must(look(engine.Process.Pid)).pid
		time.Sleep(20 * time.Millisecond) // its threads have started
		if err := signal(p, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				for j.lives(p, o) {
				}
				if now, err := look(p.PID); err == nil && !now.dead {
					t.Errorf("process reported as ended is %+v", now)
				}
			})
		}
		all.Wait()
		_ = engine.Wait()
	}
}

// A killed engine leaves the child that writes its snapshot, which has the same arguments.
func TestChildOfKilledEngineIsNotTheEngine(t *testing.T) {
	b := newFixture(t)
	b.do("herodb.create", with(spec, "persist", true), writ.ChangeCreated)
	first, conf := b.pid(), jobOn(b.Driver, store).in("server.conf")
	user := b.own().User
	if user == 0 {
		user = uint32(os.Geteuid())
	}
	child := &exec.Cmd{
		Path: "/bin/sh", Args: []string{"redis-server", "-c", "read x", conf}, SysProcAttr: &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}},
	}
	input, err := child.StdinPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		t.Skipf("only root starts processes of others: %v", err)
	}
	if err := signal(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	b.until("it is gone", func() bool { return !jobOn(b.Driver, store).lives(first, b.own()) })
	if seen, err := b.Observe(t.Context(), store); err != nil || seen.State != stopped {
		t.Errorf("the database is seen as %q, %v", seen.State, err)
	}
	if drift := b.keep(); len(drift) != 1 || !drift[0].Mended {
		t.Errorf("drift with a child = %+v", drift)
	}
	if now := b.pid(); now == first || now.PID == child.Process.Pid {
		t.Errorf("process %d serves; the child is %d", now.PID, child.Process.Pid)
	}
	_ = input.Close() // ends a child that was not killed
	if err := child.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the child ended with %v", err)
	}
}

// hero_redis starts, persists, is stopped for a backup, and restarts.
func TestHeroRedisServes(t *testing.T) {
	testenv.Need(t, "hero_redis")
	b := newFixture(t)
	b.Engines = []string{"hero_redis"}
	hero := with(spec, "engines", []any{"hero_redis"})
	values := b.do("herodb.create", hero, writ.ChangeCreated)
	if values["engine"] != "hero_redis" || values["version"] != unknownVersion {
		t.Errorf("it is %v", values)
	}
	login := func() *client {
		c := b.client()
		b.ask(c, "SELECT", "0")
		return c
	}
	c := login()
	b.ask(c, "SET", "a", "before")
	b.do("herodb.create", hero, writ.ChangeUnchanged)
	b.do("herodb.backup", nightly, writ.ChangeUpdated)
	b.ask(login(), "SET", "a", "after")
	b.do("herodb.restore", nightly, writ.ChangeUpdated)
	if v := b.ask(login(), "GET", "a"); v != "before" {
		t.Errorf("restored it has %v", v)
	}
	b.refuse("herodb.rotate_secret", nil, writ.CodeDriverMissing)
	b.do("herodb.create", with(hero, "memory_mib", int64(128)), writ.ChangeUpdated)
	if _, err := b.login("another secret"); err == nil {
		t.Error("any secret opens it")
	}
	p := b.pid()
	if err := signal(p, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	b.until("it is gone", func() bool { return !jobOn(b.Driver, store).lives(p, b.own()) })
	if drift := b.keep(); len(drift) != 1 || !drift[0].Mended {
		t.Errorf("it says %+v", drift)
	}
	if v := b.ask(login(), "GET", "a"); v != "before" {
		t.Errorf("killed and started again it has %v", v)
	}
	b.do("herodb.delete", nil, writ.ChangeDeleted)
	if left := traces(t, b.host); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}

// All other tests use redis-server.
func TestValkeyServes(t *testing.T) {
	testenv.Need(t, "valkey-server")
	b := newFixture(t)
	valkey := map[string]any{"memory_mib": int64(32), "persist": true, "engines": []any{"valkey-server"}}
	values := b.do("herodb.create", valkey, writ.ChangeCreated)
	if values["engine"] != "valkey-server" || !needs.AtLeast(fmt.Sprint(values["version"]), "7.2") {
		t.Errorf("it is %v", values)
	}
	b.ask(b.client(), "SET", "a", "before")
	b.do("herodb.backup", nightly, writ.ChangeUpdated)
	b.ask(b.client(), "SET", "a", "after")
	b.do("herodb.rotate_secret", nil, writ.ChangeUpdated)
	b.do("herodb.create", with(valkey, "memory_mib", int64(64)), writ.ChangeUpdated)
	b.do("herodb.restore", nightly, writ.ChangeUpdated)
	if v := b.ask(b.client(), "GET", "a"); v != "before" {
		t.Errorf("restored it has %v", v)
	}
	if drift := b.keep(); len(drift) != 0 {
		t.Errorf("it says %+v", drift)
	}
	b.do("herodb.delete", nil, writ.ChangeDeleted)
	if left := traces(t, b.host); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}

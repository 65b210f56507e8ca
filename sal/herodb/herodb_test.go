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
	"writ/internal/testenv"
	"writ/sal"
	"writ/sal/directory"
	"writ/sal/needs"
	"writ/sal/saltest"
)

var (
	spec    = map[string]any{"memory_mib": int64(64)}
	nightly = map[string]any{"backup": "nightly"}
)

// with makes arguments of a base and a change.
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

// onNetworks are the steps at which a database on a network is disturbed: those that one on the host does not come to, or comes to in
// another state. Package sal examines by itself how its records are written.
var onNetworks = map[string]bool{
	"make the namespace": true, "release the network": true, "start the process": true, "end the process": true,
	"keep a snapshot": true, "delete a snapshot": true, "restore the tree": true, "remove the data": true,
}

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

// TestTheSecretIsOnlyInItsFile looks for the secret that was made up in everything but the one file that has it: the arguments and the
// environment of the process, records, logs, configuration, results.
func TestTheSecretIsOnlyInItsFile(t *testing.T) {
	b := newFixture(t)
	values := b.do("herodb.create", spec, writ.ChangeCreated)
	a, err := b.jobOn(store).readAccess("access.json")
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
		t.Fatalf("%d things seen, %v", len(seen), err)
	}
	for where, text := range seen {
		for _, secret := range []string{a.Secret, a.Driver} {
			if strings.Contains(text, secret) {
				t.Errorf("%s shows a secret", where)
			}
		}
	}
}

// TestAGivenPasswordOpensAndIsKeptBySumAlone also changes from one that is given to one that is made up.
func TestAGivenPasswordOpensAndIsKeptBySumAlone(t *testing.T) {
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

// TestARotatedSecretClosesAndOpensWithoutAPause rotates under a client that goes on.
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
	if err := served.Wait(t.Context()); err != nil { // as the runner does
		t.Fatal(err)
	}
	b.keep()
	b.client() // also after another start
}

// TestClientsHaveTheDataAndNotTheServer and the driver the other way round.
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
	in, err := b.jobOn(store).serve(t.Context(), must(b.records().Get(store)))
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

// TestARunnerThatStartsAgainFindsItsDatabase as it was, also if it was killed before it wrote the process down.
func TestARunnerThatStartsAgainFindsItsDatabase(t *testing.T) {
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

// TestAKilledProcessComesBack with what it had if it persists, and empty if not; and later each time.
func TestAKilledProcessComesBack(t *testing.T) {
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
				b.until("it is gone", func() bool { return !b.jobOn(store).lives(p, b.own()) })
				if seen, err := b.Observe(t.Context(), store); err != nil || seen.State != stopped {
					t.Errorf("it is seen as %q, %v", seen.State, err)
				}
				drift := b.keep()
				if len(drift) != 1 || drift[0].Mended != (try < 2) {
					t.Errorf("the %d. time: %+v", try+1, drift)
				}
				if try >= 2 {
					b.do("herodb.create", with(spec, "persist", persist), writ.ChangeUnchanged) // who asks does not wait
				}
				if v := b.ask(b.client(), "GET", "a"); v != want {
					t.Errorf("the %d. time it has %v", try+1, v)
				}
			}
		})
	}
}

// TestAProcessThatEndsAgainAndAgainIsStartedEverMoreRarely, up to a bound.
func TestAProcessThatEndsAgainAndAgainIsStartedEverMoreRarely(t *testing.T) {
	var all []time.Duration
	for count := range 9 {
		all = append(all, starts{count: count}.wait())
	}
	want := []time.Duration{0, 0, firstWait, time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, mostWait, mostWait}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Error(diff)
	}
}

// TestABackupIsWhatWasThereAndARestoreBringsItBack while somebody writes.
func TestABackupIsWhatWasThereAndARestoreBringsItBack(t *testing.T) {
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
					_, err = w.ask(context.Background(), "INCR", "counter") // waits while the database holds still
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
				t.Error("restored it has what came after the backup")
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
	if _, err := b.try("herodb.restore", map[string]any{"backup": "none"}); writ.CodeOf(err) != writ.CodeResourceUnknown {
		t.Errorf("a backup that is not there: %v", err)
	}
}

// TestMemoryIsBounded by the engine, and by the kernel where the host can do that.
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
		t.Error("it was started anew for more memory")
	}
	all, err := b.groups().All()
	if err != nil {
		t.Fatal(err)
	}
	if dir := all[b.jobOn(store).group()]; b.groups().About() != "nothing" {
		if in, err := b.groups().Has(b.jobOn(store).group(), process.PID); !in || err != nil {
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

// TestAnEngineThatTakesTooMuchIsKilledAlone and it is said why: what a script of a client takes, an engine does not count.
func TestAnEngineThatTakesTooMuchIsKilledAlone(t *testing.T) {
	b := newFixture(t)
	if lacking, _ := b.groups().Lacks(); len(lacking) > 0 {
		t.Skipf("no groups bound %v here", lacking)
	}
	b.do("herodb.create", spec, writ.ChangeCreated)
	p := b.pid()
	if _, err := b.client().ask(t.Context(), "EVAL", "local t = {} for i = 1, 1000 do t[i] = string.rep('x', 1000000) .. i end return #t", "0"); err == nil {
		t.Fatal("64 MiB hold a gigabyte")
	}
	b.until("it is gone", func() bool { return !b.jobOn(store).lives(p, b.own()) })
	drift := b.keep()
	if len(drift) != 1 || !drift[0].Mended || !strings.Contains(drift[0].What, "more than its 64 MiB") {
		t.Errorf("it says %+v", drift)
	}
	b.client()
	if drift := b.keep(); len(drift) > 0 {
		t.Errorf("later it says %+v", drift)
	}
}

// TestMissingEnginesAreReportedWithTheirInstallation with the line that installs it.
func TestMissingEnginesAreReportedWithTheirInstallation(t *testing.T) {
	b := newFixture(t)
	e := b.refuse("herodb.create", with(spec, "version", "99"), writ.CodeDriverMissing)
	if !strings.Contains(e.Message, "where 99 is asked for") {
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

// TestASecretThatBeginsWithAHyphenIsNoArgumentOfItsOwn: programs take it for the name of another one.
func TestASecretThatBeginsWithAHyphenIsNoArgumentOfItsOwn(t *testing.T) {
	for _, e := range engines {
		for _, a := range e.arguments(instance{access: access{Secret: "-secret", Driver: "-driver"}}) {
			if a == "-secret" || a == "-driver" {
				t.Errorf("%s is started with %q", e.name, a)
			}
		}
	}
}

// TestAForeignProcessOnThePortIsNotOurs at the choice of a port, and when a process starts again.
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
	b.until("it is gone", func() bool { return !b.jobOn(store).lives(p, b.own()) })
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

// TestAPortThatIsTakenBeforeTheStartIsReplaced: between the look at a port and the start of the engine anybody may listen there.
func TestAPortThatIsTakenBeforeTheStartIsReplaced(t *testing.T) {
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
		t.Errorf("it has the port %d, and so has somebody else", taken)
	}
	b.client()
	b.do("herodb.delete", nil, writ.ChangeDeleted)
}

// TestAReusedProcessNumberIsLeftAlone: a record names the pid of a process that is another one by now.
func TestAReusedProcessNumberIsLeftAlone(t *testing.T) {
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
		t.Error("deleting the database ended a process of somebody else")
	default:
	}
}

// TestAFullDiskIsSaidAndGoesBy: the engine refuses what changes data, the driver says why, and with room it goes on by itself.
func TestAFullDiskIsSaidAndGoesBy(t *testing.T) {
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
		t.Errorf("with room it says %+v", drift)
	}
	b.do("herodb.delete", nil, writ.ChangeDeleted)
	disk.Fill()
	b.refuse("herodb.create", with(spec, "persist", true), writ.CodeDiskFull)
	disk.Free()
	if records, _, err := b.records().List(); err != nil || len(records) > 0 {
		t.Errorf("left are %v, %v", records, err)
	}
}

// TestAnEngineIsUpgradedOnlyWhenAsked: the node's program says another version one day.
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
	b.until("it is gone", func() bool { return !b.jobOn(store).lives(p, b.own()) })
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
		t.Errorf("upgraded it is %v", values)
	}
	if drift := b.keep(); len(drift) != 0 {
		t.Errorf("upgraded it says %+v", drift)
	}
	b.do("herodb.delete", nil, writ.ChangeDeleted)
	if left := must(os.ReadDir(filepath.Join(b.Dir, "engines"))); len(left) > 0 {
		t.Errorf("copies of engines are left: %v", left)
	}
}

// TestAnUnrecordedEngineIsAnOrphan: a process, its directory, its data and its group, after somebody removed the record.
// TestADeleteRemovesTheRecordLast looks at the last moment at which an end of the driver is one that somebody comes back for.
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
				t.Errorf("there is %v, %v in %s", left, err, dir)
			}
		}
	}
	b.do("herodb.delete", nil, writ.ChangeDeleted)
	if !reached {
		t.Error("it never came there")
	}
}

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

// TestDataThatIsGoneIsNotReplacedByNothing: a database whose tree somebody removed does not start empty.
func TestDataThatIsGoneIsNotReplacedByNothing(t *testing.T) {
	b := newFixture(t)
	b.do("herodb.create", with(spec, "persist", true), writ.ChangeCreated)
	p := b.pid()
	if err := errors.Join(signal(p, syscall.SIGKILL), b.Trees.Remove(t.Context(), store.HostName())); err != nil {
		t.Fatal(err)
	}
	b.until("it is gone", func() bool { return !b.jobOn(store).lives(p, b.own()) })
	if drift := b.keep(); len(drift) != 1 || drift[0].Mended || !strings.Contains(drift[0].What, "data of herodb store is gone") {
		t.Errorf("it says %+v", drift)
	}
	b.refuse("herodb.create", with(spec, "persist", true), writ.CodeDriverRefused)
	b.do("herodb.delete", nil, writ.ChangeDeleted)
}

// TestALogIsCutOff and keeps its end.
func TestALogIsCutOff(t *testing.T) {
	b := newFixture(t)
	b.do("herodb.create", spec, writ.ChangeCreated)
	path := b.jobOn(store).in(logName)
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

// TestAHintNamesALogThatIsThere: that of a database which cannot be made goes with it, and is quoted instead.
func TestAHintNamesALogThatIsThere(t *testing.T) {
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
	log, redis := b.jobOn(store).in(logName), with(spec, "engines", []any{"redis-server"})

	serves(many)
	failed := b.refuse("herodb.create", redis, writ.CodeDriverFailed)
	if strings.Contains(failed.Hint, log) || !strings.Contains(failed.Error(), "line 1 of 12\n") || !strings.Contains(failed.Error(), "line 12 of 12") {
		t.Errorf("of a database that is not made: %v (%s)", failed, failed.Hint)
	}

	serves("exec " + real + " \"$@\"\n")
	b.do("herodb.create", redis, writ.ChangeCreated)
	if err := os.Mkdir(filepath.Join(b.own().Tree, dumpName), 0o755); err != nil { // where it is to write its data
		t.Fatal(err)
	}
	names := func(failed *writ.Error, word string) {
		t.Helper()
		if said := string(must(os.ReadFile(log))); !strings.Contains(failed.Hint, log) || !strings.Contains(said, word) {
			t.Errorf("%v (%s), and %s says %s", failed, failed.Hint, log, said)
		}
	}
	names(b.refuse("herodb.backup", nightly, writ.CodeDiskFull), "Is a directory")
	serves(many)
	p := b.pid()
	if err := errors.Join(os.Remove(filepath.Join(b.own().Tree, dumpName)), signal(p, syscall.SIGKILL)); err != nil {
		t.Fatal(err)
	}
	b.until("it is gone", func() bool { return !b.jobOn(store).lives(p, b.own()) })
	failed = b.refuse("herodb.create", redis, writ.CodeDriverFailed)
	if strings.Contains(failed.Error(), "line 7 of 12") || !strings.Contains(failed.Error(), "line 8 of 12") {
		t.Errorf("it quotes another part of the log than its end: %v", failed)
	}
	names(failed, "line 1 of 12")
}

// TestAProcessWithoutArgumentsYetIsNotTakenForDead: those of a process are there a moment after it is.
func TestAProcessWithoutArgumentsYetIsNotTakenForDead(t *testing.T) {
	b := newFixture(t)
	b.do("herodb.create", spec, writ.ChangeCreated)
	cat := &exec.Cmd{Path: must(exec.LookPath("cat")), Args: []string{""}}
	in := must(cat.StdinPipe())
	if err := cat.Start(); err != nil {
		t.Fatal(err)
	}
	p := must(look(cat.Process.Pid))
	if !p.starting || !b.jobOn(store).lives(p.pid, b.own()) {
		t.Errorf("it is %+v", p)
	}
	if err := errors.Join(in.Close(), cat.Wait()); err != nil {
		t.Error(err)
	}
	if b.jobOn(store).lives(p.pid, b.own()) {
		t.Error("it has ended, and lives")
	}
}

// TestAProcessLivesUntilItHasEnded: it has its port until then, and what would be started in its place could not listen.
func TestAProcessLivesUntilItHasEnded(t *testing.T) {
	j := newFixture(t).jobOn(store)
	o := own{Engine: "redis-server"}
	for range 50 {
		engine := exec.Command(o.Engine, "--port", "0", "--save", "", "--unixsocket", filepath.Join(t.TempDir(), "socket"), "--set-proc-title", "no", "--pidfile", j.in("pid"))
		if err := engine.Start(); err != nil {
			t.Fatal(err)
		}
		p := must(look(engine.Process.Pid)).pid
		time.Sleep(20 * time.Millisecond) // it has its threads
		if err := signal(p, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				for j.lives(p, o) {
				}
				if now, err := look(p.PID); err == nil && !now.dead {
					t.Errorf("it is said to have ended, and is %+v", now)
				}
			})
		}
		all.Wait()
		_ = engine.Wait()
	}
}

// TestAChildOfAKilledEngineIsNotTakenForIt: a killed engine leaves the process behind that writes its snapshot, with the same arguments.
func TestAChildOfAKilledEngineIsNotTakenForIt(t *testing.T) {
	b := newFixture(t)
	b.do("herodb.create", with(spec, "persist", true), writ.ChangeCreated)
	first, conf := b.pid(), b.jobOn(store).in("server.conf")
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
	b.until("it is gone", func() bool { return !b.jobOn(store).lives(first, b.own()) })
	if seen, err := b.Observe(t.Context(), store); err != nil || seen.State != stopped {
		t.Errorf("the database is seen as %q, %v", seen.State, err)
	}
	if drift := b.keep(); len(drift) != 1 || !drift[0].Mended {
		t.Errorf("what the child holds up: %+v", drift)
	}
	if now := b.pid(); now == first || now.PID == child.Process.Pid {
		t.Errorf("process %d serves; the child is %d", now.PID, child.Process.Pid)
	}
	_ = input.Close() // one that was not killed ends by this
	if err := child.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the child ended with %v", err)
	}
}

// TestHeroRedisServes where it is allowed to: it starts, persists, is stopped for a backup, and comes back.
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
	b.until("it is gone", func() bool { return !b.jobOn(store).lives(p, b.own()) })
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

// TestValkeyServes as its ancestor does, which everything else is tried with.
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

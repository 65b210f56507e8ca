//go:build linux

package herodb

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"writ"
	"writ/internal/cgroup"
	"writ/internal/confine"
	"writ/internal/test/testenv"
	"writ/sal"
	"writ/sal/catalog"
	"writ/sal/saltest"
)

func needUsers(t *testing.T, b *fixture) {
	t.Helper()
	if b.Accounts == nil {
		t.Skip("only root starts processes as others")
	}
}

func TestEachEngineHasItsOwnUnprivilegedUser(t *testing.T) {
	b := newFixture(t)
	needUsers(t, b)
	b.do("herodb.create", with(spec, "persist", true), writ.ChangeCreated)
	b.ask(b.client(), "SET", "a", "1")
	user := b.own().User
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.pid().PID))
	if err != nil || !b.Accounts.Has(user) {
		t.Fatalf("it is the user %d, %v", user, err)
	}
	for _, line := range []string{
		fmt.Sprintf("Uid:\t%[1]d\t%[1]d\t%[1]d\t%[1]d", user), fmt.Sprintf("Gid:\t%[1]d\t%[1]d\t%[1]d\t%[1]d", user), fmt.Sprintf("Groups:\t%d", b.Accounts.SharedGroup),
		"CapInh:\t0000000000000000", "CapPrm:\t0000000000000000", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "CapAmb:\t0000000000000000", "NoNewPrivs:\t1",
	} {
		if !strings.Contains(string(text), line) {
			t.Errorf("its status has no %q:\n%s", line, text)
		}
	}
	dir := jobOn(b.Driver, store).dir
	for path, want := range map[string]string{
		dir: fmt.Sprintf("0:%d 710", user), filepath.Join(dir, "access.json"): "0:0 600", filepath.Join(dir, "server.conf"): fmt.Sprintf("0:%d 640", user),
		b.own().Tree: fmt.Sprintf("%[1]d:%[1]d 700", user),
	} {
		if got := saltest.Looks(t, path); got != want {
			t.Errorf("%s is %s, want %s", strings.TrimPrefix(path, b.host), got, want)
		}
	}
	b.do("herodb.backup", nightly, writ.ChangeUpdated)
	b.do("herodb.rotate_secret", nil, writ.ChangeUpdated) // it reloads its users
	b.do("herodb.restore", nightly, writ.ChangeUpdated)
	if v := b.ask(b.client(), "GET", "a"); v != "1" || b.own().User != user {
		t.Errorf("restored it has %v and is the user %d", v, b.own().User)
	}
	b.do("herodb.delete", nil, writ.ChangeDeleted)
}

// A node can switch user accounts on and off, and to other numbers. Running processes continue and change at their next
// start. The files of a previous user are reclaimed, whoever gets the number.
func TestUsersOfEnginesComeAndGoWithTheNextStart(t *testing.T) {
	b := newFixture(t)
	needUsers(t, b)
	some := b.Accounts
	others := *some
	others.First, others.Last = some.Last+1, some.Last+2048
	b.Accounts = nil
	b.do("herodb.create", with(spec, "persist", true), writ.ChangeCreated)
	b.ask(b.client(), "SET", "a", "kept")
	memory := int64(20)
	for i, accounts := range []*confine.Accounts{some, &others, nil, some} {
		b.Accounts = accounts
		b.restart()
		b.do("herodb.rotate_secret", nil, writ.ChangeUpdated) // with the process from before
		b.end()
		memory++
		// Starts it first.
		b.do("herodb.create", with(with(spec, "persist", true), "memory_mib", memory), writ.ChangeUpdated)
		if v := b.ask(b.client(), "GET", "a"); v != "kept" {
			t.Errorf("%d. it has %v", i, v)
		}
		user := b.own().User
		if accounts.Used() != (user != 0) || user != 0 && !accounts.Has(user) || !confine.RunsAs(b.pid().PID, user) {
			t.Errorf("%d. record has user %d, process runs as %s", i, user, saltest.Looks(t, fmt.Sprintf("/proc/%d", b.pid().PID)))
		}
		for path, want := range map[string]string{jobOn(b.Driver, store).dir: fmt.Sprintf("0:%d 710", user), b.own().Tree: fmt.Sprintf("%[1]d:%[1]d 700", user)} {
			if user == 0 {
				want = "0:0 700"
			}
			if got := saltest.Looks(t, path); got != want {
				t.Errorf("%d. %s is %s, want %s", i, path, got, want)
			}
		}
	}
	b.do("herodb.delete", nil, writ.ChangeDeleted)
}

// end kills the process of the database.
func (b *fixture) end() {
	b.Helper()
	p := b.pid()
	if err := signal(p, syscall.SIGKILL); err != nil {
		b.Fatal(err)
	}
	b.until("it is gone", func() bool { return !jobOn(b.Driver, store).lives(p, b.own()) })
}

// as starts a waiting shell with forged arguments, as a user and in its own session. It ends with the test.
func (b *fixture) as(user uint32, arguments ...string) *exec.Cmd {
	b.Helper()
	cmd := &exec.Cmd{Path: "/bin/sh", Args: append([]string{arguments[0], "-c", "read x"}, arguments...), SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	input, err := cmd.StdinPipe()
	if err == nil {
		err = confine.Start(cmd, confine.Cell{User: user, SharedGroup: b.Accounts.SharedGroup})
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = input.Close()
		_ = cmd.Wait()
	})
	return cmd
}

// Root in a container can use any user and any arguments.
func TestEngineIsNotAContainerProcess(t *testing.T) {
	b := newFixture(t)
	needUsers(t, b)
	b.do("herodb.create", spec, writ.ChangeCreated)
	p, user, path := b.pid(), b.own().User, jobOn(b.Driver, store).in("server.conf")
	b.end()
	impostor := &exec.Cmd{
		Path: "/bin/sh", Args: []string{"redis-server", "-c", "read x", path},
		SysProcAttr: &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Setsid: true, Credential: &syscall.Credential{Uid: user, Gid: user}},
	}
	input, err := impostor.StdinPipe()
	if err == nil {
		err = impostor.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = input.Close(), impostor.Wait() }()
	if found, err := jobOn(b.Driver, store).process(b.own()); err != nil || found != (pid{}) {
		t.Fatalf("process %d is taken for the engine, %v", found.PID, err)
	}
	b.do("herodb.create", spec, writ.ChangeUnchanged)
	if now := b.pid(); now.PID == impostor.Process.Pid || now == p || b.own().User != user {
		t.Errorf("it is served by process %d as %d", now.PID, b.own().User)
	}
	if err := impostor.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("a process that is not the engine was ended: %v", err)
	}
}

// Any process can have the arguments of an engine. If the driver accepted it, the process would get the secret of a
// database.
func TestEngineIsIdentifiedByItsUser(t *testing.T) {
	b := newFixture(t)
	needUsers(t, b)
	b.do("herodb.create", spec, writ.ChangeCreated)
	p, path := b.pid(), jobOn(b.Driver, store).in("server.conf")
	b.end()
	impostor := b.as(b.own().User+1, "redis-server", path)
	if all, err := processesWith(path); err != nil || len(all) != 1 || all[0].PID != impostor.Process.Pid {
		t.Fatalf("processes with the path = %v, %v, want the impostor", all, err)
	}
	if found, err := jobOn(b.Driver, store).process(b.own()); err != nil || found != (pid{}) {
		t.Fatalf("process %d is taken for the engine, %v", found.PID, err)
	}
	b.do("herodb.create", spec, writ.ChangeUnchanged)
	if now := b.pid(); now.PID == impostor.Process.Pid || now == p {
		t.Errorf("it is served by process %d", now.PID)
	}
	b.do("herodb.delete", nil, writ.ChangeDeleted)
	if err := impostor.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("a process that is not the engine was ended: %v", err)
	}
}

// Children of an engine have its user, whatever their name.
func TestEngineChildrenEndWithoutCgroups(t *testing.T) {
	b := newFixture(t)
	needUsers(t, b)
	b.groups()
	b.cgroups = &cgroup.Groups{Name: "none", Root: t.TempDir()}
	b.do("herodb.create", spec, writ.ChangeCreated)
	user := b.own().User
	for _, next := range []func(){
		func() { b.do("herodb.create", spec, writ.ChangeUnchanged) },
		func() { b.do("herodb.delete", nil, writ.ChangeDeleted) },
	} {
		b.end()
		child, other := b.as(user, "something"), b.as(user+1, "something")
		next()
		if err := child.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
			t.Errorf("its child ended with %v", err)
		}
		if err := other.Process.Signal(syscall.Signal(0)); err != nil {
			t.Errorf("another one's was ended: %v", err)
		}
	}
}

// The record is older than this node's current numbers. Another node of the host may use them now.
func TestWithoutGroupsProcessesOfAnotherNodeLive(t *testing.T) {
	b := newFixture(t)
	needUsers(t, b)
	b.groups()
	b.cgroups = &cgroup.Groups{Name: "none", Root: t.TempDir()}
	b.do("herodb.create", spec, writ.ChangeCreated)
	b.end()
	others := *b.Accounts
	others.First, others.Last = others.Last+1, others.Last+2048
	stranger := b.as(b.own().User, "something")
	b.Accounts = &others
	b.do("herodb.delete", nil, writ.ChangeDeleted)
	// The file of an ended process is empty.
	if said, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", stranger.Process.Pid)); err != nil || len(said) == 0 {
		t.Errorf("another node's was ended: %v", err)
	}
}

func TestAFailedCreateKeepsNoUser(t *testing.T) {
	b := newFixture(t)
	needUsers(t, b)
	b.Accounts.Last = b.Accounts.First
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b.FirstPort = l.Addr().(*net.TCPAddr).Port
	b.LastPort = b.FirstPort
	o, _ := catalog.Lookup("herodb.create")
	args, err := o.Decode(spec)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"one", "two"} {
		_, err := b.Do(t.Context(), sal.Request{Operation: o, Resource: saltest.Resource(writ.KindHeroDB, name), UID: "u", Args: args, Progress: func(string) {}})
		if writ.CodeOf(err) != writ.CodeQuotaExceeded || !strings.Contains(err.Error(), "no port") {
			t.Errorf("%s: %v", name, err)
		}
	}
	l.Close()
	b.do("herodb.create", spec, writ.ChangeCreated)
}

// A compromised engine may leave any links in its tree, and root changes the owners of the files there.
func TestLinksInTheTreeOfAnEngineAreNotFollowed(t *testing.T) {
	b := newFixture(t)
	needUsers(t, b)
	b.do("herodb.create", with(spec, "persist", true), writ.ChangeCreated)
	secret := filepath.Join(b.host, "secret")
	if err := os.WriteFile(secret, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	link, second := filepath.Join(b.own().Tree, "link"), filepath.Join(b.own().Tree, "second")
	if err := os.Symlink(secret, link); err != nil {
		t.Fatal(err)
	}
	again := func() error {
		b.end()
		_, err := b.try("herodb.create", with(spec, "persist", true))
		return err
	}
	if err := again(); err != nil {
		t.Error(err)
	}
	if err := os.Link(secret, second); err != nil {
		t.Fatal(err)
	}
	if err := again(); err == nil || !strings.Contains(err.Error(), "has a second name") {
		t.Errorf("a file with two names: %v", err)
	}
	if got := saltest.Looks(t, secret); got != "0:0 600" {
		t.Errorf("it is %s now", got)
	}
}

// A child of an engine may forge its arguments and continue to listen on the engine's port.
//
// Promise: Speed and storage: Leftover processes and output of a driver process do not disturb the next one.
// How: Its process group ends before the next one starts, or all processes of its user; events are read in pieces.
// Also: sal/cloudhypervisor.TestWithoutGroupsProcessesOfAnotherNodeLive, TestWithoutGroupsProcessesOfAnotherNodeLive,
// TestMachineChildrenEndWithoutCgroups, TestEngineChildrenEndWithoutCgroups, TestInvalidEventsAreSkippedInPieces,
// TestAConsoleReservesNoMoreThanItMayHave.
func TestAChildOfAnEngineStopsListening(t *testing.T) {
	b := newFixture(t)
	if b.groups().About() == "nothing" {
		t.Skip("this host gives processes no groups")
	}
	b.do("herodb.create", spec, writ.ChangeCreated)
	p, group := b.pid(), store.HostName()
	stray := exec.Command(testenv.Need(t, "redis-server"), "--bind", b.own().Host, "--port", strconv.FormatInt(b.own().Port, 10), "--save", "", "--dir", t.TempDir())
	t.Cleanup(func() { _ = stray.Wait() })
	t.Cleanup(func() { _ = stray.Process.Kill() })
	if err := signal(p, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	b.until("it is gone", func() bool { return !jobOn(b.Driver, store).lives(p, b.own()) })
	if err := stray.Start(); err != nil {
		t.Fatal(err)
	}
	if err := b.groups().Add(group, stray.Process.Pid); err != nil {
		t.Fatal(err)
	}
	b.until("the stray listens", func() bool { return listens(b.own().Host, b.own().Port) != nil })
	if _, err := b.try("herodb.create", spec); err != nil {
		t.Error(err)
	}
}

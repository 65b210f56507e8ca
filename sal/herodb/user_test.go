//go:build linux

package herodb

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"writ"
)

func needUsers(t *testing.T, b *bench) {
	t.Helper()
	if b.Accounts == nil {
		t.Skip("only root starts processes as others")
	}
}

func ownerOf(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	s := info.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("%d:%d %o", s.Uid, s.Gid, info.Mode().Perm())
}

func TestAnEngineIsAUserOfItsOwnWhoCanDoNothingElse(t *testing.T) {
	b := newBench(t)
	needUsers(t, b)
	b.do("herodb.create", with(spec, "persist", true), writ.ChangeCreated)
	b.ask(b.client(), "SET", "a", "1")
	user := b.own().User
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.pid().PID))
	if err != nil || !b.Accounts.Has(user) {
		t.Fatalf("it is the user %d, %v", user, err)
	}
	for _, line := range []string{
		fmt.Sprintf("Uid:\t%[1]d\t%[1]d\t%[1]d\t%[1]d", user), fmt.Sprintf("Gid:\t%[1]d\t%[1]d\t%[1]d\t%[1]d", user), fmt.Sprintf("Groups:\t%d", b.Accounts.Door),
		"CapInh:\t0000000000000000", "CapPrm:\t0000000000000000", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "CapAmb:\t0000000000000000", "NoNewPrivs:\t1",
	} {
		if !strings.Contains(string(text), line) {
			t.Errorf("its status has no %q:\n%s", line, text)
		}
	}
	dir := b.jobOn(store).dir
	for path, want := range map[string]string{
		dir: fmt.Sprintf("0:%d 710", user), filepath.Join(dir, "access.json"): "0:0 600", filepath.Join(dir, "server.conf"): fmt.Sprintf("0:%d 640", user),
		b.own().Tree: fmt.Sprintf("%[1]d:%[1]d 700", user),
	} {
		if got := ownerOf(t, path); got != want {
			t.Errorf("%s is %s, want %s", strings.TrimPrefix(path, b.host), got, want)
		}
	}
	b.do("herodb.backup", nightly, writ.ChangeUpdated)
	b.do("herodb.rotate_secret", nil, writ.ChangeUpdated) // it reads its users anew
	b.do("herodb.restore", nightly, writ.ChangeUpdated)
	if v := b.ask(b.client(), "GET", "a"); v != "1" || b.own().User != user {
		t.Errorf("restored it has %v and is the user %d", v, b.own().User)
	}
	b.do("herodb.delete", nil, writ.ChangeDeleted)
}

// A node can be switched between one and the other; what is there goes on, and changes at its next start.
func TestUsersOfEnginesComeAndGoWithTheNextStart(t *testing.T) {
	b := newBench(t)
	needUsers(t, b)
	accounts := b.Accounts
	b.Accounts = nil
	b.do("herodb.create", with(spec, "persist", true), writ.ChangeCreated)
	b.ask(b.client(), "SET", "a", "kept")
	for i, used := range []bool{true, false, true} {
		b.Accounts = nil
		if used {
			b.Accounts = accounts
		}
		b.do("herodb.rotate_secret", nil, writ.ChangeUpdated) // with the process from before
		p := b.pid()
		if err := signal(p, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		b.until("it is gone", func() bool { return !b.jobOn(store).lives(p, b.own()) })
		b.do("herodb.create", with(spec, "persist", true), writ.ChangeUnchanged)
		if v := b.ask(b.client(), "GET", "a"); v != "kept" {
			t.Errorf("%d. it has %v", i, v)
		}
		if owner := ownerOf(t, fmt.Sprintf("/proc/%d", b.pid().PID)); strings.HasPrefix(owner, "0:") == used {
			t.Errorf("%d. it runs as %s", i, owner)
		}
	}
}

// An engine that was taken over may leave anything in its tree, and root is who hands it over again.
func TestWhatAnEngineLeavesInItsTreeLeadsNowhere(t *testing.T) {
	b := newBench(t)
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
		p := b.pid()
		if err := signal(p, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		b.until("it is gone", func() bool { return !b.jobOn(store).lives(p, b.own()) })
		_, err := b.try("herodb.create", with(spec, "persist", true))
		return err
	}
	if err := again(); err != nil {
		t.Error(err)
	}
	if err := os.Link(secret, second); err != nil {
		t.Fatal(err)
	}
	if err := again(); err == nil || !strings.Contains(err.Error(), "no file that has one name") {
		t.Errorf("a file with two names: %v", err)
	}
	if got := ownerOf(t, secret); got != "0:0 600" {
		t.Errorf("it is %s now", got)
	}
}

// A child of an engine may say that it is somebody else, and go on listening where the engine did.
func TestWhatAnEngineLeavesBehindListensNoMore(t *testing.T) {
	b := newBench(t)
	if b.groups().About() == "nothing" {
		t.Skip("this host gives processes no groups")
	}
	b.do("herodb.create", spec, writ.ChangeCreated)
	p, group := b.pid(), b.jobOn(store).group()
	stray := exec.Command("redis-server", "--bind", b.own().Host, "--port", strconv.FormatInt(b.own().Port, 10), "--save", "", "--dir", t.TempDir())
	t.Cleanup(func() { _ = stray.Wait() })
	t.Cleanup(func() { _ = stray.Process.Kill() })
	if err := signal(p, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	b.until("it is gone", func() bool { return !b.jobOn(store).lives(p, b.own()) })
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

package cloudhypervisor

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"writ"
	"writ/internal/confine"
	"writ/sal"
	"writ/sal/saltest"
)

// needUsers skips a test that may give processes no users.
func (b *bench) needUsers() {
	b.Helper()
	if b.Accounts == nil {
		b.Skip("only root starts processes as others")
	}
}

// mustHaveNothing makes sure that a process is a user of its own who can do nothing that is not everybody's.
func mustHaveNothing(t testing.TB, pid int, user uint32) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	status := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		status[name] = strings.Join(strings.Fields(value), " ")
	}
	id := fmt.Sprint(user)
	all := strings.Join([]string{id, id, id, id}, " ")
	if status["Uid"] != all || status["Gid"] != all || strings.HasPrefix(status["Groups"], "0") || strings.Contains(status["Groups"], " 0 ") {
		t.Errorf("it runs as %s, group %s, of %s; %d is meant", status["Uid"], status["Gid"], status["Groups"], user)
	}
	none := strings.Repeat("0", 16)
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		if status[set] != none {
			t.Errorf("it has the capabilities %s %s", set, status[set])
		}
	}
	if status["NoNewPrivs"] != "1" {
		t.Errorf("it may get new rights: %s", status["NoNewPrivs"])
	}
}

func ownerOf(t testing.TB, path string) (user, group uint32, mode fs.FileMode) {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	s := info.Sys().(*syscall.Stat_t)
	return s.Uid, s.Gid, info.Mode().Perm()
}

func TestEachMachineIsAUserOfItsOwnWhoCanDoNothingElse(t *testing.T) {
	benches(t, func(t *testing.T, b *bench) {
		b.needUsers()
		nets := networks(t)
		b.must("machine.create", "web", with(machineSpec, "networks", nets, "disks", []any{saltest.RefTo(writ.KindVolume, "root")}, "initramfs", "initramfs"))
		b.must("machine.create", "other", machineSpec)
		web, other := b.record("web").Own, b.record("other").Own
		if web.User == other.User || !b.Accounts.Has(web.User) || !b.Accounts.Has(other.User) {
			t.Fatalf("they are the users %d and %d", web.User, other.User)
		}
		mustHaveNothing(t, web.Process.PID, web.User)
		mustHaveNothing(t, other.Process.PID, other.User)

		// What is there of a machine can be replaced by nobody but us, and others do not even come there.
		dir := b.dirOf(machine("web"))
		for path, want := range map[string]string{
			dir:                                   fmt.Sprintf("0 %d 0710", web.User),
			filepath.Join(dir, seedName):          fmt.Sprintf("%d %d 0400", web.User, web.User),
			filepath.Join(dir, socketName):        "0 0 0600",
			filepath.Join(dir, "kernel"):          fmt.Sprintf("0 %d 0640", web.User),
			filepath.Join(b.host, "volumes/root"): fmt.Sprintf("0 %d 0710", web.User),
			filepath.Join(b.host, "volumes/root", sal.DiskName): fmt.Sprintf("%d %d 0600", web.User, web.User),
		} {
			user, group, mode := ownerOf(t, path)
			if got := fmt.Sprintf("%d %d 0%o", user, group, mode); got != want {
				t.Errorf("%s is %s, want %s", strings.TrimPrefix(path, b.host), got, want)
			}
		}

		// It keeps its user, and gives back what it had.
		b.must("machine.stop", "web", atOnce)
		b.must("machine.start", "web", nil)
		if again := b.record("web").Own; again.User != web.User {
			t.Errorf("it is the user %d after another start, before %d", again.User, web.User)
		}
		b.must("machine.delete", "web", nil)
		for path, want := range map[string]string{"volumes/root": "0 0 0755", "volumes/root/" + sal.DiskName: "0 0 0600"} {
			user, group, mode := ownerOf(t, filepath.Join(b.host, path))
			if got := fmt.Sprintf("%d %d 0%o", user, group, mode); got != want {
				t.Errorf("left is %s as %s, want %s", path, got, want)
			}
		}
		b.must("machine.delete", "other", nil)
		b.empty()
	})
}

func TestAUserIsNobodyElsesAsLongAsAnythingOfItIsThere(t *testing.T) {
	b := newBench(t)
	b.needUsers()
	b.Accounts.Last = b.Accounts.First + 1 // two
	choose := func(name string) (uint32, error) { return b.chooseUser(machine(name)) }
	first, err := choose("a")
	if again, _ := choose("a"); err != nil || again != first {
		t.Errorf("a is %d and then %d, %v", first, again, err)
	}
	// One that is not in the record of a machine yet, one in a directory, one in a record.
	b.must("machine.create", "b", machineSpec)
	second := b.record("b").Own.User
	if second == first {
		t.Errorf("a and b are %d", first)
	}
	if _, err := choose("c"); err == nil || !strings.Contains(err.Error(), "taken") {
		t.Errorf("there is a third: %v", err)
	}
	b.users = confine.Register{}
	if err := b.records().Remove(machine("b")); err != nil { // as one whose record is damaged
		t.Fatal(err)
	}
	if third, err := choose("c"); err != nil || third == second {
		t.Errorf("c is %d, as what is left of b: %v", third, err)
	}
}

// Whoever had the directory of a disk could lead root anywhere.
func TestADiskIsHandedOverOnlyIfItIsOne(t *testing.T) {
	b := newBench(t)
	b.needUsers()
	secret := filepath.Join(b.host, "secret")
	if err := os.WriteFile(secret, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(secret, filepath.Join(b.host, "volumes/root", sal.DiskName)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.do("machine.create", "web", with(machineSpec, "disks", []any{saltest.RefTo(writ.KindVolume, "root")})); err == nil ||
		!regexp.MustCompile(`no file that has one name`).MatchString(err.Error()) {
		t.Errorf("a file with two names: %v", err)
	}
	if user, group, mode := ownerOf(t, secret); user != 0 || group != 0 || mode != 0o600 {
		t.Errorf("it was given to %d:%d with %o", user, group, mode)
	}
	b.empty()
}

// A node can be switched between one and the other; what is there goes on, and changes at its next start.
func TestUsersComeAndGoWithTheNextStart(t *testing.T) {
	b := newBench(t)
	b.needUsers()
	accounts := b.Accounts
	b.Accounts = nil
	b.must("machine.create", "web", with(machineSpec, "disks", []any{saltest.RefTo(writ.KindVolume, "root")}))
	b.must("machine.snapshot", "web", before)
	for i, a := range []bool{true, false, true} {
		b.Accounts = nil
		if a {
			b.Accounts = accounts
		}
		b.keeps("web", "", true)
		if i == 1 {
			b.must("machine.restore", "web", before)
		} else {
			b.signal("web", unix.SIGKILL, true)
			b.time = b.time.Add(time.Hour)
			b.keeps("web", "its process had died", true)
		}
		r := b.record("web").Own
		if user, _, _ := ownerOf(t, fmt.Sprintf("/proc/%d", r.Process.PID)); (user != 0) != a || user != r.User {
			t.Errorf("%d. it runs as %d, and its record says %d", i, user, r.User)
		}
		if b.state("web") != string(running) {
			t.Errorf("%d. it is %s", i, b.state("web"))
		}
	}
	b.must("machine.delete", "web", nil)
	b.empty()
}

package cloudhypervisor

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"writ"
	"writ/internal/cgroup"
	"writ/internal/confine"
	"writ/internal/diskspace"
	"writ/internal/test/testenv"
	"writ/sal"
	"writ/sal/saltest"
)

// needUsers skips a test that cannot give processes their own users.
func (b *fixture) needUsers() {
	b.Helper()
	if b.Accounts == nil {
		b.Skip("only root starts processes as others")
	}
}

// mustHaveNothing fails the test unless a process has its own user and no privileges.
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

// Promise: Machines and the overlay: An attacker that escapes from a machine or engine is an unprivileged user with
// access to that machine or database only.
// How: A user and group per process, recorded before they own a file and reused after full deletion; root opens no
// file that they can replace.
// Also: TestUserNumberInUseStaysReserved, TestADiskIsHandedOverOnlyIfItIsOne, TestUsersComeAndGoWithTheNextStart,
// TestEachEngineHasItsOwnUnprivilegedUser, TestUsersOfEnginesComeAndGoWithTheNextStart,
// TestLinksInTheTreeOfAnEngineAreNotFollowed, TestAChildOfAnEngineStopsListening,
// TestTwoNodesOfAHostGiveTheirProcessesOtherUsers, TestAScriptWorksOnRealDrivers, TestAProcessIsKnownByItsUser,
// TestTheNumberOfARunningUserIsNotReused, TestOnlyTheUserCanPassTheDirectories.
func TestEachMachineHasItsOwnUnprivilegedUser(t *testing.T) {
	forEachFixture(t, func(t *testing.T, b *fixture) {
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

		// Only the driver can replace the files of a machine, and other users cannot reach them.
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

		// The machine keeps its user, and returns its disks and files at the end.
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

func TestUserNumberInUseStaysReserved(t *testing.T) {
	b := newFixture(t)
	b.needUsers()
	b.Accounts.Last = b.Accounts.First + 1 // two users
	choose := func(name string) (uint32, error) {
		return b.job(sal.Request{Resource: machine(name)}).chooseUser(machine(name))
	}
	first, err := choose("a")
	if again, _ := choose("a"); err != nil || again != first {
		t.Errorf("a is %d and then %d, %v", first, again, err)
	}
	// Users are in use: for a machine without a record, for a directory, and in a record.
	b.must("machine.create", "b", machineSpec)
	second := b.record("b").Own.User
	if second == first {
		t.Errorf("a and b are %d", first)
	}
	if _, err := choose("c"); err == nil || !strings.Contains(err.Error(), "taken") {
		t.Errorf("third choice: %v, want a refusal", err)
	}
	b.users = confine.Register{}
	if err := b.records().Remove(machine("b")); err != nil { // as if its record were damaged
		t.Fatal(err)
	}
	if third, err := choose("c"); err != nil || third == second {
		t.Errorf("c got %d, the user of b's files: %v", third, err)
	}
}

// A user with the directory of a disk could lead root to any file.
func TestADiskIsHandedOverOnlyIfItIsOne(t *testing.T) {
	b := newFixture(t)
	b.needUsers()
	secret := filepath.Join(b.host, "secret")
	if err := os.WriteFile(secret, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(secret, filepath.Join(b.host, "volumes/root", sal.DiskName)); err != nil {
		t.Fatal(err)
	}
	b.refuses("machine.create", "web", with(machineSpec, "disks", []any{saltest.RefTo(writ.KindVolume, "root")}), writ.CodeResourceConflict, "has a second name")
	if user, group, mode := ownerOf(t, secret); user != 0 || group != 0 || mode != 0o600 {
		t.Errorf("it was given to %d:%d with %o", user, group, mode)
	}
	b.empty()
}

// A node can switch user accounts on and off, and to other numbers. Running processes continue and change at their next
// start. The files of a previous user are reclaimed, whoever gets the number.
func TestUsersComeAndGoWithTheNextStart(t *testing.T) {
	b := newFixture(t)
	b.needUsers()
	some := b.Accounts
	others := *some
	others.First, others.Last = some.Last+1, some.Last+2048
	b.Accounts = nil
	b.must("machine.create", "web", with(machineSpec, "disks", []any{saltest.RefTo(writ.KindVolume, "root")}))
	b.must("machine.snapshot", "web", before)
	for i, a := range []*confine.Accounts{some, &others, nil, some} {
		b.Accounts = a
		b.keeps("web", "", true)
		switch i {
		case 1:
			b.must("machine.restore", "web", map[string]any{"snapshot": "0"}) // made under another user
		case 2:
			b.must("machine.restore", "web", before)
		default:
			b.signal("web", unix.SIGKILL, true)
			b.time = b.time.Add(time.Hour)
			b.keeps("web", "its process had died", true)
		}
		r := b.record("web").Own
		if r.User != 0 != a.Used() || r.User != 0 && !a.Has(r.User) || !confine.RunsAs(r.Process.PID, r.User) {
			t.Errorf("%d. record has user %d", i, r.User)
		}
		b.hasDisk(r.User)
		if b.state("web") != string(running) {
			t.Errorf("%d. it is %s", i, b.state("web"))
		}
		b.must("machine.snapshot", "web", map[string]any{"snapshot": fmt.Sprint(i)})
	}
	b.must("machine.delete", "web", nil)
	b.hasDisk(0)
	b.empty()
}

// hasDisk fails the test unless user owns the volume root; 0 means that no user does.
func (b *fixture) hasDisk(user uint32) {
	b.Helper()
	want := fmt.Sprintf("0 %d 0710, %d %d 0600", user, user, user)
	if user == 0 {
		want = "0 0 0755, 0 0 0600"
	}
	if got := b.disk(); got != want {
		b.Errorf("the disk is %s, want %s", got, want)
	}
}

// disk returns the owners of the volume root and of the disk in it.
func (b *fixture) disk() string {
	b.Helper()
	var all []string
	for _, path := range []string{"volumes/root", "volumes/root/" + sal.DiskName} {
		user, group, mode := ownerOf(b, filepath.Join(b.host, path))
		all = append(all, fmt.Sprintf("%d %d 0%o", user, group, mode))
	}
	return strings.Join(all, ", ")
}

// A start takes a disk from one user and gives it to another. Wherever it is interrupted, the record names the user
// that has the disk.
func TestDiskOwnerIsAlwaysRecorded(t *testing.T) {
	b := newFixture(t)
	b.needUsers()
	accounts := b.Accounts
	b.must("machine.create", "web", with(machineSpec, "disks", []any{saltest.RefTo(writ.KindVolume, "root")}))
	b.must("machine.stop", "web", nil)
	for i, to := range []*confine.Accounts{nil, accounts} {
		for n, whole := 0, false; !whole; n++ {
			b.Accounts, b.Step = []*confine.Accounts{accounts, nil}[i], nil
			b.must("machine.start", "web", nil)
			b.must("machine.stop", "web", nil)
			left := n
			b.Accounts, b.Step = to, func(string) {
				if left--; left < 0 {
					runtime.Goexit()
				}
			}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				b.must("machine.start", "web", nil)
				whole = true
			}()
			<-ended
			var user, group uint32
			_, _ = fmt.Sscanf(b.disk()[strings.Index(b.disk(), ",")+1:], "%d %d", &user, &group)
			if r := b.record("web").Own; (user != 0 || group != 0) && (user != r.User || group != r.User) {
				t.Errorf("%d. after %d steps the disk is %s, and the record has the user %d", i, n, b.disk(), r.User)
			}
		}
	}
	b.Step = nil
	b.must("machine.delete", "web", nil)
	b.hasDisk(0)
	b.empty()
}

// The machine's user can make a hard link to a disk. The link must not block the end or the start of the machine, and
// the next user gets an error with the way to find it.
func TestHardLinkedDiskAllowsDelete(t *testing.T) {
	b := newFixture(t)
	b.needUsers()
	root := []any{saltest.RefTo(writ.KindVolume, "root")}
	b.must("machine.create", "web", with(machineSpec, "disks", root))
	path := filepath.Join(b.host, "volumes/root", sal.DiskName)
	if err := os.Link(path, filepath.Join(b.host, "second")); err != nil {
		t.Fatal(err)
	}
	b.must("machine.stop", "web", nil)
	b.must("machine.start", "web", nil)
	b.must("machine.delete", "web", nil)
	b.hasDisk(0)
	_, err := b.do("machine.create", "other", with(machineSpec, "disks", root))
	if e := writ.AsError(err); e == nil || e.Code != writ.CodeResourceConflict || !strings.Contains(e.Hint, "-samefile "+path) {
		t.Errorf("second machine: %v", err)
	}
	b.hasDisk(0)
	b.empty()
}

// Any process can have the arguments of one whose PID is not recorded yet.
func TestStartIsIdentifiedByItsUser(t *testing.T) {
	b := newFixture(t)
	b.needUsers()
	b.must("machine.create", "web", machineSpec)
	pid := b.record("web").Own.Process.PID
	b.change("web", func(o *own) { o.Process.PID, o.Process.Started = 0, 0 })
	impostor := &exec.Cmd{Path: "/bin/sh", Args: []string{argumentsOf(pid)[0], "-c", "read x"}}
	if !isLaunch(b.dirOf(machine("web")), b.record("web").Own.Process.Launch)(impostor.Args) {
		t.Fatal("it does not have the arguments")
	}
	input, err := impostor.StdinPipe()
	if err == nil {
		err = confine.Start(impostor, confine.Cell{User: b.record("web").Own.User + 1, SharedGroup: b.Accounts.SharedGroup})
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = input.Close(), impostor.Wait() }()
	v, err := b.openProcess(b.record("web"))
	if err != nil || v == nil || v.pid != pid {
		t.Fatalf("it is %+v, %v", v, err)
	}
	v.release()
	b.signal("web", unix.SIGKILL, true)
	if v, err := b.openProcess(b.record("web")); err != nil || v != nil {
		t.Errorf("process %d is taken for it, %v", v.pid, err)
	}
	b.time = b.time.Add(time.Hour)
	b.keeps("web", "its process had died", true)
	b.must("machine.delete", "web", nil)
}

// Children of a machine's process have its user, whatever their name.
func TestMachineChildrenEndWithoutCgroups(t *testing.T) {
	b := newFixture(t)
	b.needUsers()
	b.groups()
	b.cgroups = &cgroup.Groups{Name: "none", Root: t.TempDir()}
	b.must("machine.create", "web", machineSpec)
	for _, next := range []string{"machine.start", "machine.delete"} {
		b.signal("web", unix.SIGKILL, true)
		child := &exec.Cmd{Path: "/bin/sh", Args: []string{"something", "-c", "read x"}}
		input, err := child.StdinPipe()
		if err == nil {
			err = confine.Start(child, confine.Cell{User: b.record("web").Own.User, SharedGroup: b.Accounts.SharedGroup})
		}
		if err != nil {
			t.Fatal(err)
		}
		b.must(next, "web", nil)
		if err := child.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
			t.Errorf("%s: its child ended with %v", next, err)
		}
		_ = input.Close()
	}
	b.empty()
}

// The record is older than this node's current numbers. Another node of the host may use them now.
func TestWithoutGroupsProcessesOfAnotherNodeLive(t *testing.T) {
	b := newFixture(t)
	b.needUsers()
	b.groups()
	b.cgroups = &cgroup.Groups{Name: "none", Root: t.TempDir()}
	b.must("machine.create", "web", machineSpec)
	b.signal("web", unix.SIGKILL, true)
	stranger := &exec.Cmd{Path: "/bin/sh", Args: []string{"something", "-c", "read x"}}
	input, err := stranger.StdinPipe()
	if err == nil {
		err = confine.Start(stranger, confine.Cell{User: b.record("web").Own.User, SharedGroup: b.Accounts.SharedGroup})
	}
	if err != nil {
		t.Fatal(err)
	}
	others := *b.Accounts
	others.First, others.Last = others.Last+1, others.Last+2048
	b.Accounts = &others
	b.must("machine.delete", "web", nil)
	_ = input.Close() // it exits then
	if err := stranger.Wait(); err != nil && strings.Contains(err.Error(), "killed") {
		t.Error("another node's was ended")
	}
	b.empty()
}

func TestAFailedCreateKeepsNoUser(t *testing.T) {
	b := newFixture(t)
	b.needUsers()
	b.Accounts.Last = b.Accounts.First
	for _, name := range []string{"one", "two"} {
		b.refuses("machine.create", name, with(machineSpec, "disks", []any{saltest.RefTo(writ.KindVolume, "none")}), writ.CodeResourceUnknown)
	}
	b.must("machine.create", "web", machineSpec)
}

func TestUnexecutableProgramIsReported(t *testing.T) {
	b := newFixture(t)
	b.needUsers()
	if err := os.Chmod(b.Program, 0o700); err != nil {
		t.Fatal(err)
	}
	b.refuses("machine.create", "web", machineSpec, writ.CodeDriverMissing, "may not execute", b.Program)
	b.empty()
}

// The process owns the file of its console. It can allocate space beyond the end without ever writing there.
func TestAConsoleReservesNoMoreThanItMayHave(t *testing.T) {
	b := newFixture(t)
	b.must("machine.create", "web", machineSpec)
	path := filepath.Join(b.dirOf(machine("web")), consoleName)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, 4*maxConsole); err != nil {
		t.Skipf("cannot reserve space here: %v", err)
	}
	before, err := f.Stat()
	if err != nil || diskspace.Occupied(before) <= maxConsole {
		t.Fatalf("it has %d bytes reserved, %v", diskspace.Occupied(before), err)
	}
	b.trimAll()
	if info, err := f.Stat(); err != nil || diskspace.Occupied(info) > maxConsole || info.Size() != before.Size() {
		t.Errorf("it occupies %d bytes, and has %d of %d, %v", diskspace.Occupied(info), info.Size(), before.Size(), err)
	}
}

// Some file systems allocate more for a growing file than its process requested. Output during the release of that
// space is kept.
func TestConsoleOutputDuringATrimStays(t *testing.T) {
	dir := t.TempDir()
	testenv.NewBtrfs(t, dir, 256)
	f, err := os.Create(filepath.Join(dir, consoleName))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	line := []byte(strings.Repeat("x", 99) + "\n")
	over, written := make(chan struct{}), make(chan error, 1)
	var allowed atomic.Int64 // while it is trimmed, it writes less than the margin
	go func() {
		for at := int64(0); ; {
			select {
			case <-over:
				written <- nil
				return
			default:
			}
			if at >= allowed.Load() {
				runtime.Gosched()
				continue
			}
			if _, err := f.WriteAt(line, at); err != nil {
				written <- err
				return
			}
			at += int64(len(line))
		}
	}()
	for range 200 {
		info, err := f.Stat()
		if err == nil {
			err = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, info.Size()+16<<20, 16<<20)
		}
		if err == nil {
			allowed.Store(info.Size() + ahead/2)
			err = trim(dir, func(string) {})
		}
		if info, failed := f.Stat(); err != nil || failed != nil || diskspace.Occupied(info) > maxConsole {
			t.Fatalf("it occupies %d bytes, %v, %v", diskspace.Occupied(info), failed, err)
		}
	}
	close(over)
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	text, err := lastBytes(f.Name(), keepConsole)
	if lost := bytes.IndexByte(text, 0); err != nil || lost >= 0 {
		t.Errorf("at %d of the last %d bytes something is lost, %v", lost, len(text), err)
	}
}

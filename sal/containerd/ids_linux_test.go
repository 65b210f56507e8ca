package containerd

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"writ"
	"writ/internal/confine"
	"writ/internal/test/testenv"
	"writ/internal/userns"
	"writ/sal"
	"writ/sal/needs"
	"writ/sal/saltest"
)

// rootOf returns the host user that is root in a container.
func (b *fixture) rootOf(name string) uint32 {
	b.Helper()
	r, err := recordsIn(b.driver.Dir).Get(saltest.Resource(writ.KindContainer, name))
	if err != nil || r == nil {
		b.Fatal(r, err)
	}
	return r.Own.IDs
}

// processOf returns the host PID of a container's main process.
func (b *fixture) processOf(name string) uint32 {
	b.Helper()
	ctx := b.driver.in(b.Context())
	r, err := recordsIn(b.driver.Dir).Get(saltest.Resource(writ.KindContainer, name))
	if err != nil || r == nil {
		b.Fatal(r, err)
	}
	c, err := b.driver.client.LoadContainer(ctx, r.Own.Container)
	if err != nil {
		b.Fatal(err)
	}
	task, err := c.Task(ctx, nil)
	if err != nil {
		b.Fatal(err)
	}
	return task.Pid()
}

// userOfProcess returns the host user of a process.
func userOfProcess(t testing.TB, pid uint32) uint32 {
	t.Helper()
	info, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Uid
}

// withVolume returns a container with a volume at /v.
func withVolume(volume string) map[string]any {
	return map[string]any{"image": "busybox", "command": waits, "volumes": []any{map[string]any{"volume": saltest.RefTo(writ.KindVolume, volume), "path": "/v"}}}
}

// Promise: Networks and containers: Root in a container is a host user of that container alone, and its user numbers
// are reused only after full deletion.
// How: Each container has a user namespace and a recorded range; layers and volumes are idmapped mounts.
// Also: TestUsersAreFreedWithTheirContainer, TestALayerOfAContainerWithUsersOfItsOwnIsKept,
// TestTwoNodesOfAHostGiveTheirContainersOtherUsers, TestTreeIsShownWithItsUsersOwnership,
// TestNetworkBelongsToItsUsers.
func TestRootInAContainerHasItsOwnUser(t *testing.T) {
	for name, root := range map[string]func(*testing.T) string{
		"overlayfs": func(*testing.T) string { return "" },
		"btrfs": func(t *testing.T) string {
			dir := t.TempDir()
			testenv.NewBtrfs(t, dir, 512)
			return dir
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newFixture(t, root(t))
			b.must("container.create", "a", withVolume("v"))
			b.must("container.create", "b", withVolume("v"))
			a, other := b.rootOf("a"), b.rootOf("b")
			if !b.driver.IDs.Has(a) && a != b.driver.IDs.SharedGroup || a == other || (a-b.driver.IDs.SharedGroup)%userns.Many != 0 {
				t.Errorf("they have the users from %d and from %d on", a, other)
			}
			if got := userOfProcess(t, b.processOf("a")); got != a {
				t.Errorf("root in the container is %d of the host, and its users begin at %d", got, a)
			}
			if got := b.sh("a", "id -u; stat -c %u /bin/busybox / /v"); got != "0\n0\n0\n0\n" {
				t.Errorf("in there files belong to others: %q", got)
			}

			// Files on disk have the numbers from inside the container, whoever wrote them.
			b.sh("a", "echo secret > /v/key && chmod 600 /v/key && echo mine > /v/mine && chown 1000:1001 /v/mine && chmod 600 /v/mine && touch /root-was-here")
			for file, want := range map[string]uint32{"key": 0, "mine": 1000} {
				info, err := os.Stat(filepath.Join(b.host, "volumes", "v", file))
				if err != nil || info.Sys().(*syscall.Stat_t).Uid != want {
					t.Errorf("%s belongs to another on the disk: %v, %v", file, info, err)
				}
			}
			if got := b.sh("b", "cat /v/key /v/mine; stat -c %u:%g /v/mine"); got != "secret\nmine\n1000:1001\n" {
				t.Errorf("the other container reads %q", got)
			}
			b.must("container.delete", "a", nil)
			b.must("container.create", "c", withVolume("v"))
			if got := b.sh("c", "cat /v/key"); got != "secret\n" {
				t.Errorf("the next container reads %q", got)
			}

			// The program can open its outputs by name, as many images do, and so can programs that run in the
			// container.
			b.sh("c", "echo named > /proc/1/fd/1; echo named > /dev/stdout")
			if got := b.must("container.logs", "c", nil)["text"].(string); !strings.Contains(got, "named\n") {
				t.Errorf("it wrote %q", got)
			}
			// Many servers start as root and switch to another user with its groups.
			if got := b.sh("c", "busybox su web -c 'id -u; grep Groups /proc/self/status'"); got != "33\nGroups:\t7 34 \n" {
				t.Errorf("root becomes another user as %q", got)
			}
			for _, name := range []string{"b", "c"} {
				b.must("container.delete", name, nil)
			}
			if left := traces(t, b.driver, b.daemon, b.host); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
			if stages, err := os.ReadDir(filepath.Join(b.driver.Dir, "stages")); err != nil || len(stages) > 0 {
				t.Errorf("stages are left: %v, %v", stages, err)
			}
		})
	}
}

// A runner that ends while the stage is filled leaves mounts of volumes. The next operation, whichever it is, removes
// them.
func TestNextOperationClearsAStaleStage(t *testing.T) {
	b := newFixture(t, "")
	stages := func() int {
		entries, err := os.ReadDir(filepath.Join(b.driver.Dir, "stages"))
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	b.must("container.create", "a", withVolume("v"))
	for _, next := range []string{"container.start", "container.stop", "container.create"} {
		b.must("container.stop", "a", nil)
		ended := make(chan struct{})
		b.driver.Step = func(step string) {
			if step == "clear the stage" {
				runtime.Goexit()
			}
		}
		go func() {
			defer close(ended)
			_, _ = b.do("container.start", "a", nil)
		}()
		<-ended
		if b.reopen(); stages() != 1 {
			t.Fatalf("the runner ended with %d stages", stages())
		}
		if next == "container.create" {
			b.must(next, "a", withVolume("v"))
		} else {
			b.must(next, "a", nil)
		}
		if stages() != 0 {
			t.Errorf("%s left the stage there", next)
		}
	}
	b.must("container.delete", "a", nil)
}

// The daemon must not collect a layer that it does not mount itself.
func TestALayerOfAContainerWithUsersOfItsOwnIsKept(t *testing.T) {
	b := newFixture(t, "")
	b.must("container.create", "a", map[string]any{"image": "busybox", "command": waits})
	b.sh("a", "echo here > /written")
	b.must("container.create", "b", map[string]any{"image": "busybox", "command": waits})
	b.must("container.delete", "b", nil) // starts a garbage collection and waits for its end
	b.must("container.stop", "a", map[string]any{"grace_seconds": int64(0)})
	b.daemon.Kill()
	b.daemon.Start()
	b.must("container.start", "a", nil)
	if got := b.sh("a", "cat /written"); got != "here\n" {
		t.Errorf("it has %q", got)
	}
}

func TestUsersAreFreedWithTheirContainer(t *testing.T) {
	b := newFixture(t, "")
	all := *b.driver.IDs
	all.Last = all.SharedGroup + 2*userns.Many - 1 // two containers
	b.driver.IDs = &all
	spec := map[string]any{"image": "busybox", "command": waits, "memory_mib": int64(64)}
	b.must("container.create", "a", spec)
	b.must("container.create", "b", spec)
	before := b.rootOf("a")
	// Replaced.
	b.must("container.create", "a", map[string]any{"image": "busybox", "command": waits, "memory_mib": int64(80)})
	if got := b.rootOf("a"); got != before {
		t.Errorf("who replaces it has the users from %d on, and it had those from %d", got, before)
	}
	if _, err := b.do("container.create", "c", spec); writ.CodeOf(err) != writ.CodeDriverRefused || !strings.Contains(err.Error(), "no user numbers are left") {
		t.Errorf("a third container: %v", err)
	}
	path := filepath.Join(b.driver.Dir, "records", saltest.Resource(writ.KindContainer, "a").HostName()+".json")
	if err := os.WriteFile(path, nil, 0o600); err != nil { // the container of a damaged record keeps its numbers
		t.Fatal(err)
	}
	if _, err := b.do("container.create", "c", spec); err == nil || !strings.Contains(err.Error(), "no user numbers") {
		t.Errorf("a container in place of one whose record is damaged: %v", err)
	}
	b.must("container.delete", "b", nil)
	b.must("container.create", "c", spec)
	if got := b.rootOf("c"); got == before {
		t.Errorf("it has the users from %d on, which another has", got)
	}
}

// Promise: Networks and containers: A container from an earlier version, or on a host without subordinate users, runs
// with host users and the node reports it.
// How: Its record has no numbers; with configured numbers the node refuses such a container.
// Also: TestHostWithoutContainerUsersIsReported.
func TestOldContainerKeepsItsUsers(t *testing.T) {
	b := newFixture(t, "")
	ids := b.driver.IDs
	b.driver.IDs = &confine.Accounts{Off: os.ErrNotExist}
	b.driver.IDsAsked = false
	b.must("container.create", "old", withVolume("v"))
	b.sh("old", "echo old > /v/old && chmod 600 /v/old")
	b.driver.IDs = ids
	b.must("container.stop", "old", map[string]any{"grace_seconds": int64(0)})
	b.must("container.start", "old", nil)
	if got := userOfProcess(t, b.processOf("old")); got != 0 || b.rootOf("old") != 0 {
		t.Errorf("root in there is %d of the host", got)
	}
	b.must("container.create", "new", withVolume("v"))
	if got := b.sh("new", "cat /v/old"); got != "old\n" {
		t.Errorf("who has users of its own reads %q of who has the host's", got)
	}
	if got := userOfProcess(t, b.processOf("new")); got == 0 {
		t.Error("root in the new one is root of the host")
	}
}

func TestHostWithoutContainerUsersIsReported(t *testing.T) {
	b := newFixture(t, "")
	b.driver.IDs = &confine.Accounts{Off: fmt.Errorf("--container-ids none")}
	for _, f := range needs.Examine(t.Context(), "container", b.driver.Needs()) {
		if f.Need == "users of their own" && (f.State != needs.Degraded || !strings.Contains(f.Detail, "none")) {
			t.Errorf("%+v", f)
		}
	}
	b.must("container.create", "a", map[string]any{"image": "busybox", "command": waits})
	if got := userOfProcess(t, b.processOf("a")); got != 0 {
		t.Errorf("root in there is %d of the host", got)
	}

	// If users were requested explicitly, no container is made without them.
	b.driver.IDs, b.driver.IDsAsked = saltest.ContainerIDs(b.host), true
	b.driver.Dir = "/proc/self" // a file system without ID mapping
	j, done, err := begin(t.Context(), b.driver, sal.Request{Resource: saltest.Resource(writ.KindContainer, "b"), Progress: func(string) {}}, b.driver.locks.Take, b.driver.reach)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	if _, err := j.chooseIDs(b.driver.in(t.Context())); writ.CodeOf(err) != writ.CodeDriverMissing || !strings.Contains(err.Error(), "idmapped mount") {
		t.Errorf("on a file system that cannot: %v", err)
	}
}

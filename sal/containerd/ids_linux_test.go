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
	"writ/internal/testenv"
	"writ/internal/userns"
	"writ/sal"
	"writ/sal/needs"
	"writ/sal/saltest"
)

// rootOf is the user of the host that is root in a container.
func (b *fixture) rootOf(name string) uint32 {
	b.Helper()
	r, err := b.driver.records().Get(saltest.Resource(writ.KindContainer, name))
	if err != nil || r == nil {
		b.Fatal(r, err)
	}
	return r.Own.IDs
}

// processOf is the id on the host of a container's own process.
func (b *fixture) processOf(name string) uint32 {
	b.Helper()
	ctx := b.driver.in(b.Context())
	r, err := b.driver.records().Get(saltest.Resource(writ.KindContainer, name))
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

// userOfProcess is as whom a process runs, for the host.
func userOfProcess(t testing.TB, pid uint32) uint32 {
	t.Helper()
	info, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Uid
}

// withVolume is a container that has a volume at /v.
func withVolume(volume string) map[string]any {
	return map[string]any{"image": "busybox", "command": waits, "volumes": []any{map[string]any{"volume": saltest.RefTo(writ.KindVolume, volume), "path": "/v"}}}
}

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

			// What is on the disk has the numbers that it has in there, whoever wrote it.
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

			// Its program may open its outputs by name, as many images do, and so may those that are run in it.
			b.sh("c", "echo named > /proc/1/fd/1; echo named > /dev/stdout")
			if got := b.must("container.logs", "c", nil)["text"].(string); !strings.Contains(got, "named\n") {
				t.Errorf("it wrote %q", got)
			}
			// Many servers begin as root and become another user, with the groups of that one.
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

// A runner that ends when the process is made, and its stage is full, leaves mounts of volumes. Whatever is asked for next takes them away.
func TestTheStageOfARunnerThatEndedGoesWithTheNextOperation(t *testing.T) {
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

// A layer that the daemon does not mount itself must not be taken for garbage.
func TestALayerOfAContainerWithUsersOfItsOwnIsKept(t *testing.T) {
	b := newFixture(t, "")
	b.must("container.create", "a", map[string]any{"image": "busybox", "command": waits})
	b.sh("a", "echo here > /written")
	b.must("container.create", "b", map[string]any{"image": "busybox", "command": waits})
	b.must("container.delete", "b", nil) // and with it the daemon collects garbage, and says so when it has
	b.must("container.stop", "a", map[string]any{"grace_seconds": int64(0)})
	b.daemon.Kill()
	b.daemon.Start()
	b.must("container.start", "a", nil)
	if got := b.sh("a", "cat /written"); got != "here\n" {
		t.Errorf("it has %q", got)
	}
}

func TestUsersAreFreeAgainOnlyWhenTheirContainerIsGone(t *testing.T) {
	b := newFixture(t, "")
	all := *b.driver.IDs
	all.Last = all.SharedGroup + 2*userns.Many - 1 // two containers
	b.driver.IDs = &all
	spec := map[string]any{"image": "busybox", "command": waits, "memory_mib": int64(64)}
	b.must("container.create", "a", spec)
	b.must("container.create", "b", spec)
	before := b.rootOf("a")
	b.must("container.create", "a", map[string]any{"image": "busybox", "command": waits, "memory_mib": int64(80)}) // replaced
	if got := b.rootOf("a"); got != before {
		t.Errorf("who replaces it has the users from %d on, and it had those from %d", got, before)
	}
	if _, err := b.do("container.create", "c", spec); writ.CodeOf(err) != writ.CodeDriverRefused || !strings.Contains(err.Error(), "no users are left") {
		t.Errorf("a third container: %v", err)
	}
	path := filepath.Join(b.driver.Dir, "records", saltest.Resource(writ.KindContainer, "a").HostName()+".json")
	if err := os.WriteFile(path, nil, 0o600); err != nil { // a record that is damaged still has what its container has
		t.Fatal(err)
	}
	if _, err := b.do("container.create", "c", spec); err == nil || !strings.Contains(err.Error(), "no users are left") {
		t.Errorf("a container in place of one whose record is damaged: %v", err)
	}
	b.must("container.delete", "b", nil)
	b.must("container.create", "c", spec)
	if got := b.rootOf("c"); got == before {
		t.Errorf("it has the users from %d on, which another has", got)
	}
}

func TestAContainerFromBeforeKeepsTheUsersThatItHas(t *testing.T) {
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

func TestAHostWithoutUsersForContainersIsSaid(t *testing.T) {
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

	// Whoever asked for users gets a container with some or none at all.
	b.driver.IDs, b.driver.IDsAsked = saltest.ContainerIDs(b.host), true
	b.driver.Dir = "/proc/self" // whose file system shows nobody else's users
	j, done, err := b.driver.begin(t.Context(), sal.Request{Resource: saltest.Resource(writ.KindContainer, "b"), Progress: func(string) {}}, b.driver.reach)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	if _, err := j.chooseIDs(b.driver.in(t.Context())); writ.CodeOf(err) != writ.CodeDriverMissing || !strings.Contains(err.Error(), "idmapped mount") {
		t.Errorf("on a file system that cannot: %v", err)
	}
}

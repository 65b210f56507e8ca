package cgroup_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"writ/internal/cgroup"
	"writ/internal/confine"
)

// roleVar contains the role of this program in a child process, which uses the maximum of resources.
const roleVar = "WRIT_TEST_CGROUP_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVar) {
	case "":
		os.Exit(m.Run())
	case "waits":
		fmt.Println("ready")
		_ = unix.Pause()
	case "eats":
		fmt.Println("ready")
		for all := [][]byte{}; ; {
			piece := make([]byte, 1<<20)
			for i := range piece {
				piece[i] = 1
			}
			all = append(all, piece)
		}
	case "multiplies":
		for i := range 200 {
			again := exec.Command(os.Args[0])
			again.Env = []string{roleVar + "=waits"}
			if err := again.Start(); err != nil {
				fmt.Println("refused", i)
				break
			}
		}
		_ = unix.Pause()
	case "spins":
		fmt.Println("ready")
		for {
			_ = os.Getpid()
		}
	}
}

// needGroups returns groups of this host with all controllers. It skips the test where controllers are missing.
func needGroups(t *testing.T) *cgroup.Groups {
	t.Helper()
	g := &cgroup.Groups{Name: "writ-test-" + strconv.Itoa(os.Getpid()) + "-" + strings.ToLower(t.Name())}
	if lacking, err := g.Lacks(); len(lacking) > 0 {
		t.Skipf("no groups bound %v here: %v", lacking, err)
	}
	t.Cleanup(func() {
		all, err := g.All()
		if err != nil {
			t.Error(err)
		}
		for name := range all {
			if err := g.Remove(t.Context(), name); err != nil {
				t.Error(err)
			}
		}
	})
	return g
}

// play starts this program in a role and a group, and returns it with its first line of output.
func play(t *testing.T, g *cgroup.Groups, group, role string) (cmd *exec.Cmd, said string) {
	t.Helper()
	cmd = exec.Command(os.Args[0])
	cmd.Env = []string{roleVar + "=" + role}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := confine.Start(cmd, confine.Cell{Groups: g, Group: group}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, _ := bufio.NewReader(out).ReadString('\n')
	return cmd, strings.TrimSpace(line)
}

// until waits for a condition.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("timeout: %s", what)
		}
	}
}

func bound(t *testing.T, g *cgroup.Groups, group string, b cgroup.Bounds) {
	t.Helper()
	if err := g.Bound(group, b); err != nil {
		t.Fatal(err)
	}
}

func TestAProcessOverItsMemoryLimitIsKilledAlone(t *testing.T) {
	t.Parallel()
	g := needGroups(t)
	bound(t, g, "hog", cgroup.Bounds{Memory: 32 << 20})
	bound(t, g, "neighbour", cgroup.Bounds{Memory: 32 << 20})
	neighbour, _ := play(t, g, "neighbour", "waits")
	hog, _ := play(t, g, "hog", "eats")
	if err := hog.Wait(); err == nil || hog.ProcessState.Sys().(interface{ Signal() unix.Signal }).Signal() != unix.SIGKILL {
		t.Errorf("it ended with %v", err)
	}
	if s := g.Stat("hog"); s.OutOf != 1 {
		t.Errorf("stat of the hog = %+v", s)
	}
	if in, err := g.Has("neighbour", neighbour.Process.Pid); !in || err != nil {
		t.Errorf("its neighbour does not live: %v", err)
	}
	if s := g.Stat("neighbour"); s.OutOf != 0 || s.Memory == 0 || s.Processes == 0 {
		t.Errorf("stat of its neighbour = %+v", s)
	}
}

func TestAForkBombEnds(t *testing.T) {
	t.Parallel()
	g := needGroups(t)
	bound(t, g, "bomb", cgroup.Bounds{Processes: 40})
	_, said := play(t, g, "bomb", "multiplies")
	if !strings.HasPrefix(said, "refused") {
		t.Errorf("it says %q", said)
	}
	if s := g.Stat("bomb"); s.Refused == 0 || s.Processes > 40 {
		t.Errorf("stat = %+v", s)
	}
	if err := g.Remove(t.Context(), "bomb"); err != nil {
		t.Error(err)
	}
	if s := g.Stat("bomb"); s != (cgroup.Stat{}) {
		t.Errorf("gone it still has %+v", s)
	}
}

func TestABusyProcessGetsItsShareOfProcessors(t *testing.T) {
	t.Parallel()
	g := needGroups(t)
	bound(t, g, "spinner", cgroup.Bounds{MilliCPUs: 100, Weight: cgroup.PerCPU})
	play(t, g, "spinner", "spins")
	until(t, "it is held back", func() bool { return g.Stat("spinner").Throttled > 0 })
}

func TestBoundsGrowAndShrinkUnderAProcess(t *testing.T) {
	t.Parallel()
	g := needGroups(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{roleVar + "=waits"}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for _, mib := range []int64{64, 256, 32} {
		bound(t, g, "one", cgroup.Bounds{Memory: mib << 20, MilliCPUs: 10 * mib, Weight: mib, Processes: 100})
	}
	if in, err := g.Has("one", cmd.Process.Pid); in || err != nil {
		t.Errorf("it is in there already: %v", err)
	}
	if err := g.Add("one", cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if in, err := g.Has("one", cmd.Process.Pid); !in || err != nil {
		t.Errorf("it is not in there: %v", err)
	}
	all, err := g.All()
	if err != nil || len(all) != 1 {
		t.Fatalf("groups = %v, %v", all, err)
	}
	for _, name := range []string{"memory.max", "memory.limit_in_bytes"} { // of either version
		text, err := os.ReadFile(filepath.Join(all["one"], name))
		if err == nil && strings.TrimSpace(string(text)) != strconv.Itoa(32<<20) {
			t.Errorf("%s is %s", name, text)
		}
	}
	if err := g.Remove(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the process of the group survived")
	}
	if all, err := g.All(); err != nil || len(all) > 0 {
		t.Errorf("left are %v, %v", all, err)
	}
}

// A thread that starts a process in a group must leave it, without affecting others.
func TestTheStarterOfAProcessStaysOutsideItsGroup(t *testing.T) {
	t.Parallel()
	g := needGroups(t)
	home, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	bound(t, g, "one", cgroup.Bounds{Processes: 1000})
	for range 8 {
		play(t, g, "one", "waits")
	}
	until(t, "every thread is at home", func() bool {
		threads, err := filepath.Glob("/proc/self/task/*/cgroup")
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range threads {
			if at, err := os.ReadFile(path); err == nil && string(at) != string(home) {
				return false
			}
		}
		return true
	})
	self, err := os.ReadFile("/proc/thread-self/status")
	if err != nil || !strings.Contains(string(self), "NoNewPrivs:\t0") {
		t.Errorf("this thread has given up rights: %v", err)
	}
}

// The controllers of version 2 are detected by its files, which this test imitates. Another test shows in a guest that
// they limit processes.
func TestVersion2ControllersAreDelegated(t *testing.T) {
	for name, tt := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"the host's own root can hand down":       {map[string]string{"cgroup.controllers": "cpu memory pids io", "cgroup.subtree_control": ""}, nil},
		"a container's root has some controllers": {map[string]string{"cgroup.controllers": "cpu memory pids", "cgroup.subtree_control": "pids", "cgroup.type": "domain"}, []string{"memory", "cpu"}},
		"a root without the needed controllers":   {map[string]string{"cgroup.controllers": "hugetlb", "cgroup.subtree_control": ""}, []string{"memory", "cpu", "pids"}},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for file, text := range tt.files {
				if err := os.WriteFile(filepath.Join(root, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			g := &cgroup.Groups{Name: "writ", Root: root}
			lacking, err := g.Lacks()
			if diff := cmp.Diff(tt.want, lacking); diff != "" || (err != nil) != (len(tt.want) == 3) {
				t.Errorf("%v\n%s", err, diff)
			}
		})
	}
}

// An operator may also remove the last group by hand, as the hint describes.
//
// Promise: Machines and the overlay: Deleted cgroups leave no directory.
// How: The last cgroup removes its parent directory.
func TestNoDirectoryIsLeftOfGroupsThatAreGone(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(g *cgroup.Groups) error{
		"removed":   func(g *cgroup.Groups) error { return g.Remove(t.Context(), "one") },
		"once more": func(g *cgroup.Groups) error { return g.Remove(t.Context(), "one") },
		"tidied":    func(g *cgroup.Groups) error { g.Tidy(); return nil },
	} {
		g := needGroups(t)
		bound(t, g, "one", cgroup.Bounds{Processes: 10})
		topDirs := map[string]bool{}
		for name != "removed" { // each of its directories, one per hierarchy
			all, err := g.All()
			if err != nil {
				t.Fatal(err)
			}
			if len(all) == 0 {
				break
			}
			topDirs[filepath.Dir(all["one"])] = true
			if err := unix.Rmdir(all["one"]); err != nil {
				t.Fatal(err)
			}
		}
		if err := end(g); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for top := range topDirs {
			if _, err := os.Stat(top); err == nil {
				t.Errorf("%s: %s is still there", name, top)
			}
		}
	}
}

package testenv

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// left lists the leftovers of a killed test process.
type left struct {
	Home, Memory, Disk string
	Groups             []string
	Processes          map[string]int
	Watcher            int
}

// TestKilledTestLeavesThis runs in the process that TestKilledTestLeavesNoResources kills. It starts servers like
// tests do, and processes with their own environment like drivers do.
func TestKilledTestLeavesThis(t *testing.T) {
	if os.Getenv("WRIT_TEST_LEAVES") == "" {
		t.Skip("it is started by another test")
	}
	l := left{Home: Home(t, "x"), Memory: HomeInMemory(t, "y"), Disk: os.Getenv("WRIT_TEST_LEAVES"), Processes: map[string]int{}, Watcher: homes.watch}
	NewDisk(t, l.Disk, 8)
	own := fmt.Sprintf("writ-test-left-%d", os.Getpid())
	Cgroup(t, own)
	redis, postgres, containers := Redis(t), Postgres(t), Containerd(t, "")
	box := filepath.Join("writ-test-box-"+fmt.Sprint(os.Getpid()), "box") // a container, as the daemon stores it
	if err := os.MkdirAll(filepath.Join(containers.state(), "io.containerd.runtime.v2.task", box), 0o700); err != nil {
		t.Fatal(err)
	}
	l.Groups = []string{own, box}
	l.Processes["redis-server"], l.Processes["postgres"] = redis.cmd.Process.Pid, postgres.cmd.Process.Pid
	for _, pid := range childrenOf(os.Getpid()) {
		if namesOne(fmt.Sprintf("/proc/%d", pid), []string{containers.dir}) && pid != l.Processes["postgres"] {
			l.Processes["containerd"] = pid
		}
	}
	start := func(what string, cmd *exec.Cmd) {
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		l.Processes[what] = cmd.Process.Pid
	}
	start("a child", exec.Command("sleep", "60"))
	named := exec.Command("tail", "-f", filepath.Join(l.Home, "log"))
	named.Env = []string{"PATH=/usr/bin:/bin"}
	if err := os.WriteFile(named.Args[2], nil, 0o600); err != nil {
		t.Fatal(err)
	}
	start("a program with a file argument", named)
	for _, group := range []string{own, box} {
		member := exec.Command("sleep", "60")
		member.Env = []string{"PATH=/usr/bin:/bin"}
		start("one in "+group, member)
		some := false
		for _, hierarchy := range hierarchies() {
			dir := filepath.Join(hierarchy, group)
			_ = os.MkdirAll(dir, 0o755) // some hierarchies are not writable
			some = os.WriteFile(filepath.Join(dir, "cgroup.procs"), fmt.Append(nil, member.Process.Pid), 0o600) == nil || some
		}
		if !some { // no control groups here
			_ = member.Process.Kill()
			delete(l.Processes, "one in "+group)
		}
	}
	text, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(string(text))
	time.Sleep(time.Minute) // until it is killed
}

// hierarchies returns the directories of the control group hierarchies: one for version 2, or several for version 1.
func hierarchies() (all []string) {
	if _, err := os.Stat(filepath.Join(groupsRoot, "cgroup.controllers")); err == nil {
		return []string{groupsRoot}
	}
	files, _ := filepath.Glob(groupsRoot + "/*/cgroup.procs")
	for _, file := range files {
		all = append(all, filepath.Dir(file))
	}
	return all
}

// TestKilledTestLeavesNoResources kills the whole process group, as a shell does.
func TestKilledTestLeavesNoResources(t *testing.T) {
	NeedRoot(t)
	for _, tool := range []string{"mkfs.ext4", "redis-server", "postgres", "containerd", "runc"} {
		Need(t, tool)
	}
	for name, sweeps := range map[string]func(l left){
		"its watcher removes it": func(left) {},
		"the next test does, if the watcher was killed too": func(l left) {
			for end := time.Now().Add(10 * time.Second); running(l.Watcher) && time.Now().Before(end); time.Sleep(time.Millisecond) {
			}
			sweep(os.TempDir(), inMemory)
		},
	} {
		t.Run(name, func(t *testing.T) {
			disk := filepath.Join(t.TempDir(), "disk")
			killed := exec.Command(os.Args[0], "-test.run=^TestKilledTestLeavesThis$", "-test.v")
			killed.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			for _, variable := range os.Environ() {
				if !strings.HasPrefix(variable, MakerVar+"=") {
					killed.Env = append(killed.Env, variable)
				}
			}
			killed.Env = append(killed.Env, "WRIT_TEST_LEAVES="+disk)
			out, err := killed.StdoutPipe()
			if err == nil {
				err = killed.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			var l left
			var said strings.Builder
			for lines := bufio.NewScanner(out); lines.Scan() && json.Unmarshal(lines.Bytes(), &l) != nil; {
				said.WriteString(lines.Text() + "\n")
			}
			if strings.Contains(said.String(), "SKIP") {
				t.Skip(said.String())
			}
			// Living processes are not affected.
			sweep(os.TempDir(), inMemory)
			for _, path := range []string{l.Home, l.Memory} {
				if _, err := os.Stat(path); err != nil {
					t.Errorf("%s is gone while its maker lives: %v\n%s", path, err, said.String())
				}
			}
			for what, pid := range l.Processes {
				if !running(pid) {
					t.Errorf("%s of a test that runs is gone", what)
				}
			}
			if !mounted(t, disk) || len(l.Processes) < 5 || l.Watcher == 0 {
				t.Errorf("it has %+v", l)
			}
			if name != "its watcher removes it" {
				_ = syscall.Kill(l.Watcher, syscall.SIGKILL)
			}
			_ = syscall.Kill(-killed.Process.Pid, syscall.SIGKILL)
			_ = killed.Wait()
			sweeps(l)
			t.Cleanup(func() { // the daemon's namespace, which other tests may use
				removeGroup(filepath.Dir(l.Groups[1]))
			})
			var stays []string
			for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
				if stays = staying(t, l); len(stays) == 0 || time.Now().After(end) {
					break
				}
			}
			for _, what := range stays {
				t.Errorf("%s stays", what)
			}
		})
	}
}

// staying lists the leftovers that still exist.
func staying(t *testing.T, l left) (all []string) {
	t.Helper()
	for _, path := range []string{filepath.Dir(l.Home), filepath.Dir(l.Memory)} {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			all = append(all, path)
		}
	}
	for what, pid := range l.Processes {
		if running(pid) {
			all = append(all, what)
		}
	}
	if mounted(t, l.Disk) {
		all = append(all, "its disk")
	}
	for _, group := range l.Groups {
		all = append(all, groupDirs(group)...)
	}
	return all
}

// running reports whether a process of a test is running.
func running(pid int) bool { return pid != 0 && alive(pid) }

func mounted(t *testing.T, dir string) bool {
	t.Helper()
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(table), " "+dir+" ")
}

// A process in a container must not be killed by tests outside. Its lock has another path there.
func TestOrphanIsKnownByTheLockInItsRoot(t *testing.T) {
	proc := t.TempDir()
	lock := filepath.Join(proc, "root", "tmp", "lock")
	if err := errors.Join(os.MkdirAll(filepath.Dir(lock), 0o700), os.WriteFile(lock, nil, 0o600),
		os.WriteFile(filepath.Join(proc, "environ"), []byte("A=b\x00"+MakerVar+"=/tmp/lock\x00"), 0o600)); err != nil {
		t.Fatal(err)
	}
	held, err := os.Open(lock)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := syscall.Flock(int(held.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if orphaned(proc) {
		t.Error("a process is an orphan although its maker holds the lock")
	}
	if err := syscall.Flock(int(held.Fd()), syscall.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	if !orphaned(proc) {
		t.Error("a process with an ended parent is not an orphan")
	}
	if err := os.Remove(lock); err != nil {
		t.Fatal(err)
	}
	if !orphaned(proc) {
		t.Error("a process with a removed lock is not an orphan")
	}
}

package testenv

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// left is what a test process leaves that is killed.
type left struct {
	Home, Memory, Disk, Group string
	Child                     int
}

// TestAKilledTestLeavesThis is the process of TestWhatAKilledTestLeavesIsRemovedByTheNext.
func TestAKilledTestLeavesThis(t *testing.T) {
	if os.Getenv("WRIT_TEST_LEAVES") == "" {
		t.Skip("it is started by another test")
	}
	l := left{Home: Home(t, "x"), Memory: HomeInMemory(t, "y"), Group: fmt.Sprintf("writ-test-left-%d", os.Getpid()), Disk: os.Getenv("WRIT_TEST_LEAVES")}
	NewDisk(t, l.Disk, 8)
	Cgroup(t, l.Group)
	groups, _ := filepath.Glob(groupsRoot + "/*/cgroup.procs")
	for _, g := range groups {
		_ = os.Mkdir(filepath.Join(filepath.Dir(g), l.Group), 0o755) // not every hierarchy lets us
	}
	child := exec.Command("sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	l.Child = child.Process.Pid
	text, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(string(text))
	time.Sleep(time.Minute) // it is killed
}

func TestWhatAKilledTestLeavesIsRemovedByTheNext(t *testing.T) {
	NeedRoot(t)
	Need(t, "mkfs.ext4")
	disk := filepath.Join(t.TempDir(), "disk")
	killed := exec.Command(os.Args[0], "-test.run=^TestAKilledTestLeavesThis$", "-test.v")
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
	// What lives is left alone.
	sweep(os.TempDir(), inMemory)
	for _, path := range []string{l.Home, l.Memory} {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%s is gone while its maker lives: %v\n%s", path, err, said.String())
		}
	}
	if !alive(l.Child) || !mounted(t, disk) {
		t.Errorf("the process or the disk of a test that runs is gone")
	}
	_ = killed.Process.Kill()
	_ = killed.Wait()
	sweep(os.TempDir(), inMemory)
	for _, path := range []string{filepath.Dir(l.Home), filepath.Dir(l.Memory)} {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", path, err)
		}
	}
	for end := time.Now().Add(10 * time.Second); alive(l.Child) && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if alive(l.Child) {
		t.Error("its process lives")
	}
	if mounted(t, disk) {
		t.Error("its disk is mounted")
	}
	if groups, _ := filepath.Glob(filepath.Join(groupsRoot, "*", l.Group)); len(groups) > 0 {
		t.Errorf("its groups are left: %v", groups)
	}
}

func mounted(t *testing.T, dir string) bool {
	t.Helper()
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(table), " "+dir+" ")
}

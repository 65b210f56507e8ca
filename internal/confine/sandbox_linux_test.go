package confine_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"writ/internal/confine"
	"writ/internal/confine/confinetest"
	"writ/internal/test/testenv"
)

// intruderEnv has the targets of a child that simulates a compromised program.
const intruderEnv = "WRIT_TEST_INTRUDER"

func TestMain(m *testing.M) {
	text := os.Getenv(intruderEnv)
	if text == "" {
		os.Exit(m.Run())
	}
	var targets confinetest.Targets
	if err := json.Unmarshal([]byte(text), &targets); err != nil {
		panic(err)
	}
	said := targets.Try()
	for path, flags := range map[string]int{"/dev/fd/3": os.O_RDWR, "/dev/fd/4": os.O_RDWR} {
		f, err := os.OpenFile(path, flags, 0)
		if may := path == "/dev/fd/4"; may != (err == nil) {
			said = append(said, path+": "+errors.Join(err, errors.New("is not as it should be")).Error())
		}
		if err == nil && path == "/dev/fd/4" {
			if err := f.Truncate(0); err != nil {
				said = append(said, err.Error())
			}
		}
	}
	given, err := os.ReadFile("/dev/fd/3")
	if err != nil || string(given) != "given" {
		said = append(said, "it cannot read the given file")
	}
	if err := os.WriteFile("/dev/fd/4", []byte("made"), 0); err != nil {
		said = append(said, err.Error())
	}
	_, _ = os.Stdout.WriteString(strings.Join(append(said, "done"), "\n"))
	os.Exit(0)
}

func needLandlock(t *testing.T) {
	t.Helper()
	_, err := confine.Landlock()
	testenv.NeedKernel(t, "Landlock", err)
}

// The test runs with and without a separate user, as root and as another user.
//
// Promise: Volumes and images: A hostile qcow2 disk that compromises its converter gains access to that disk only.
// How: Two open files, Landlock, a system call filter, namespaces, limits, the greatest niceness, and its own user
// where possible.
// Also: TestASandboxIsForItsProcessAlone, TestProcessOverItsLimitsIsEnded,
// TestACompromisedConverterReachesOnlyItsDisk, TestADiskOfManyFilesIsReadAsOne.
func TestASandboxedProgramReachesOnlyItsFiles(t *testing.T) {
	needLandlock(t)
	users := []uint32{0}
	if os.Geteuid() == 0 {
		users = append(users, someone)
	}
	for _, user := range users {
		targets := confinetest.Outside(t)
		targets.Memory = 1 << 30
		dir := filepath.Dir(targets.File)
		files := make([]confine.File, 2)
		for i, name := range []string{"given", "made"} {
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, []byte("given"), 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := os.OpenFile(path, []int{os.O_RDONLY, os.O_RDWR}[i], 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if user != 0 {
				if err := f.Chown(int(user), -1); err != nil {
					t.Fatal(err)
				}
			}
			files[i] = confine.File{File: f, Write: i == 1}
		}
		program := filepath.Join(dir, "program")
		copyFile(t, program, os.Args[0])
		text, err := json.Marshal(targets)
		if err != nil {
			t.Fatal(err)
		}
		var said bytes.Buffer
		cmd := exec.Command(program)
		cmd.Env, cmd.Stdout, cmd.Stderr = []string{intruderEnv + "=" + string(text)}, &said, &said
		err = confine.Start(cmd, confine.Cell{User: user, SharedGroup: user, Sandbox: &confine.Sandbox{
			Files: files, Limits: confine.Limits{Memory: targets.Memory, FileSize: 1 << 20, CPU: time.Minute, Files: 64, Processes: 256},
		}})
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil || said.String() != "done" {
			t.Errorf("user %d: %v; allowed:\n%s", user, err, said.String())
		}
		if made, _ := os.ReadFile(filepath.Join(dir, "made")); string(made) != "made" {
			t.Errorf("it wrote %q", made)
		}
	}
}

// The thread that entered the sandbox has ended, and the rest of the process is unrestricted.
func TestASandboxIsForItsProcessAlone(t *testing.T) {
	needLandlock(t)
	for range 20 {
		cmd := exec.Command("/bin/true")
		if err := confine.Start(cmd, confine.Cell{Sandbox: &confine.Sandbox{}}); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	confinetest.Outside(t) // does everything that a sandbox forbids
	if err := exec.Command("/bin/ls", t.TempDir()).Run(); err != nil {
		t.Error(err)
	}
}

func TestProcessOverItsLimitsIsEnded(t *testing.T) {
	needLandlock(t)
	f, err := os.Create(filepath.Join(t.TempDir(), "made"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cmd := exec.Command("/bin/dd", "if=/dev/fd/3", "of=/dev/fd/4", "bs=64k", "conv=notrunc")
	source, err := os.Open(os.Args[0]) // a few MiB
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	err = confine.Start(cmd, confine.Cell{Sandbox: &confine.Sandbox{
		Files: []confine.File{{File: source}, {File: f, Write: true}}, Read: []string{"/usr/bin"}, Limits: confine.Limits{FileSize: 4096},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("it wrote as much as it liked")
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &stat); err != nil || stat.Size > 4096 {
		t.Errorf("the file has %d bytes, %v", stat.Size, err)
	}
}

func copyFile(t *testing.T, to, from string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, text, 0o755); err != nil {
		t.Fatal(err)
	}
}

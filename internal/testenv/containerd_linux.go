package testenv

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// containerdGuard ends the wait for a containerd that neither starts nor dies; a start takes some 50 ms.
const containerdGuard = 30 * time.Second

// ContainerdServer is a real containerd of one test, with directories and sockets of its own.
type ContainerdServer struct {
	Address string // its socket; the same after Kill and Start
	Root    string // what it keeps; on which file system that is decides about its snapshotters

	t    testing.TB
	path string
	dir  string // sockets, configuration and what it forgets
	end  func() // ends the process; nil while there is none

	namespaces []string // whose control groups are removed with the daemon
}

// Uses says that containers of a namespace may be there, whose control groups go with the daemon.
func (c *ContainerdServer) Uses(namespace string) {
	c.t.Helper()
	if !slices.Contains(c.namespaces, namespace) {
		c.namespaces = append(c.namespaces, namespace)
		Cgroup(c.t, namespace)
	}
}

// Containerd starts a containerd that keeps its files in root, or in a new directory if that is "", and ends it with everything that it
// started when the test ends. It skips the test as Need does, and if the test is not root.
func Containerd(t testing.TB, root string) *ContainerdServer {
	t.Helper()
	c := &ContainerdServer{t: t, path: Need(t, "containerd"), Root: root}
	Need(t, "runc")
	NeedRoot(t)
	dir := Home(t, "c")                          // short: the paths of sockets may have 107 bytes
	if err := os.Chmod(dir, 0o711); err != nil { // as /run/containerd: users of containers go through
		t.Fatal(err)
	}
	c.dir, c.Address = dir, filepath.Join(dir, "c.sock")
	if c.Root == "" {
		c.Root = filepath.Join(dir, "root")
	}
	config := fmt.Sprintf(`version = 2
root = %q
state = %q
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
  address = %q
[ttrpc]
  address = %q
[plugins."io.containerd.internal.v1.opt"]
  path = %q
`, c.Root, c.state(), c.Address, filepath.Join(dir, "t.sock"), filepath.Join(dir, "opt"))
	if err := os.WriteFile(c.config(), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.clear)
	c.Start()
	return c
}

func (c *ContainerdServer) state() string  { return filepath.Join(c.dir, "state") }
func (c *ContainerdServer) config() string { return filepath.Join(c.dir, "config.toml") }

// Start starts the daemon, again after Kill, and returns when it answers.
func (c *ContainerdServer) Start() {
	c.t.Helper()
	if err := c.start(); err != nil {
		c.t.Fatal(err)
	}
}

// start reads the daemon's log until it says that it serves.
func (c *ContainerdServer) start() error {
	log, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("start containerd: %w", err)
	}
	cmd := exec.Command(c.path, "-c", c.config())
	cmd.Stderr = w
	err = cmd.Start()
	w.Close()
	if err != nil {
		log.Close()
		return fmt.Errorf("start containerd: %w", err)
	}
	booted, read := make(chan bool, 1), make(chan struct{})
	var said strings.Builder
	go func() { // until the daemon ends: one that cannot write its log ends itself
		defer close(read)
		defer log.Close()
		for lines := bufio.NewScanner(log); lines.Scan(); {
			said.WriteString(lines.Text() + "\n")
			if strings.Contains(lines.Text(), "containerd successfully booted") {
				booted <- true
			}
		}
		close(booted)
	}()
	c.end = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // the error says that it was killed
		<-read
	}
	select {
	case ok := <-booted:
		if ok {
			return nil
		}
	case <-time.After(containerdGuard):
	}
	c.Kill()
	return fmt.Errorf("containerd did not start; it said:\n%s", said.String())
}

// Kill ends the daemon with SIGKILL and returns when it is gone. Containers go on.
func (c *ContainerdServer) Kill() {
	if c.end != nil {
		c.end()
		c.end = nil
	}
}

// clear ends the daemon and whatever it has started, and removes its files. Processes are known by our paths among their arguments.
func (c *ContainerdServer) clear() {
	c.Kill()
	for _, file := range c.found("init.pid") {
		if pid, err := os.ReadFile(file); err == nil {
			c.kill(string(pid))
		}
	}
	processes, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range processes {
		if line, err := os.ReadFile(file); err == nil && bytes.Contains(line, []byte(c.Address+"\x00")) {
			c.kill(filepath.Base(filepath.Dir(file)))
		}
	}
	for _, dir := range c.mounts() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			c.t.Errorf("unmount %s: %v", dir, err)
		}
	}
	for _, namespace := range c.namespaces { // which a node of this host may have as well: nothing in it is ended by its name
		for end := time.Now().Add(groupGuard); !removeGroup(namespace) && time.Now().Before(end); {
			time.Sleep(5 * time.Millisecond)
		}
	}
}

func (c *ContainerdServer) kill(pid string) {
	n, err := strconv.Atoi(strings.TrimSpace(pid))
	if err != nil || n <= 1 {
		return
	}
	if err := unix.Kill(n, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		c.t.Errorf("kill %d: %v", n, err)
	}
}

// found are the files of a name in the bundles of containers.
func (c *ContainerdServer) found(name string) []string {
	files, _ := filepath.Glob(filepath.Join(c.dir, bundlesBelow, name))
	return files
}

// mounts are the mounts below the daemon's directories, the innermost first.
func (c *ContainerdServer) mounts() []string {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		c.t.Error(err)
	}
	var all []string
	for line := range strings.Lines(string(table)) {
		if fields := strings.Fields(line); len(fields) > 4 && strings.HasPrefix(fields[4], c.dir+"/") {
			all = append([]string{fields[4]}, all...)
		}
	}
	return all
}

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

// containerdGuard limits the wait for the start or end of containerd. A start takes about 50 ms.
const containerdGuard = 30 * time.Second

// ContainerdServer is a real containerd for one test, with its own directories and sockets.
type ContainerdServer struct {
	Address string // socket; unchanged by Kill and Start
	Root    string // data directory; its file system determines the snapshotters

	t    testing.TB
	path string
	dir  string // sockets, configuration and state
	end  func() // ends the process; nil while it does not run

	namespaces []string // their control groups are removed with the daemon
}

// Uses registers a namespace whose control groups are removed with the daemon.
func (c *ContainerdServer) Uses(namespace string) {
	c.t.Helper()
	if !slices.Contains(c.namespaces, namespace) {
		c.namespaces = append(c.namespaces, namespace)
		Cgroup(c.t, namespace)
	}
}

// Containerd starts a containerd with its data in root, or in a new directory if root is empty. At the end of the test
// it ends the daemon with everything that the daemon started. It skips the test like Need, and if the test does not run
// as root.
func Containerd(t testing.TB, root string) *ContainerdServer {
	t.Helper()
	c := &ContainerdServer{t: t, path: Need(t, "containerd"), Root: root}
	Need(t, "runc")
	NeedRoot(t)
	dir := Home(t, "c")                          // short, because socket paths are limited to 107 bytes
	if err := os.Chmod(dir, 0o711); err != nil { // like /run/containerd: container users need access
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

// Start starts the daemon, also after Kill, and returns when the daemon is ready.
func (c *ContainerdServer) Start() {
	c.t.Helper()
	if err := c.start(); err != nil {
		c.t.Fatal(err)
	}
}

// start reads the daemon's log until the daemon is ready.
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
	go func() { // reads until the daemon ends, because the daemon exits if it cannot write its log
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
		_ = cmd.Wait() // the error reports the kill
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
	return fmt.Errorf("containerd did not start; output:\n%s", said.String())
}

// Kill ends the daemon with SIGKILL and waits for its end. Containers keep running.
func (c *ContainerdServer) Kill() {
	if c.end != nil {
		c.end()
		c.end = nil
	}
}

// clear ends the daemon and all processes that it started, and removes its files. It identifies the processes by this
// test's paths in their arguments.
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
	// A node on this host may use the same namespace, so processes are not killed by namespace.
	for _, namespace := range c.namespaces {
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

// Bundle returns the directory of the daemon's state of one container.
func (c *ContainerdServer) Bundle(namespace, id string) string {
	return filepath.Join(c.state(), "io.containerd.runtime.v2.task", namespace, id)
}

// found returns the files with a name in the bundles of containers.
func (c *ContainerdServer) found(name string) []string {
	files, _ := filepath.Glob(filepath.Join(c.dir, bundlesBelow, name))
	return files
}

// mounts returns the mounts below the daemon's directories, innermost first.
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

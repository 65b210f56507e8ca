// Package confinetest simulates a compromised program that tries to break out of a sandbox. It is for tests only.
package confinetest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Targets are the goals of the program. Every user of the host can reach them.
type Targets struct {
	File     string // readable and writable by all users
	Dir      string // writable by all users
	TCP      string // address of a server
	Unix     string // path of a socket
	Abstract string // name of an abstract socket
	PID      int    // PID of a process
	Memory   uint64 // expected memory limit of the process
}

// Outside makes targets on this host and checks that they are reachable without a sandbox.
func Outside(t testing.TB) Targets {
	t.Helper()
	dir, err := os.MkdirTemp("", "w") // paths of sockets must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	x := Targets{
		File: filepath.Join(dir, "secret"), Dir: filepath.Join(dir, "open"), Unix: filepath.Join(dir, "s"),
		Abstract: "@" + dir, PID: os.Getpid(),
	}
	err = errors.Join(os.WriteFile(x.File, []byte("secret"), 0o666), os.Mkdir(x.Dir, 0o777),
		os.Chmod(x.File, 0o666), os.Chmod(x.Dir, 0o777), os.Chmod(dir, 0o755))
	if err != nil {
		t.Fatal(err)
	}
	listen := func(network, address string) net.Listener {
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	x.TCP = listen("tcp", "127.0.0.1:0").Addr().String()
	listen("unix", x.Unix)
	listen("unix", x.Abstract)
	if err := os.Chmod(x.Unix, 0o777); err != nil {
		t.Fatal(err)
	}
	for name, try := range x.attempts() {
		if err := try(); err != nil && name != "become root" && name != "make a namespace" &&
			name != "read the memory of a process" {
			t.Fatalf("cannot %s without a sandbox, so the test is meaningless: %v", name, err)
		}
	}
	return x
}

// Try attempts everything and returns the successful attempts.
func (x Targets) Try() (succeeded []string) {
	for name, try := range x.attempts() {
		if try() == nil {
			succeeded = append(succeeded, name)
		}
	}
	if caps, err := capabilities(); err != nil || caps != 0 {
		succeeded = append(succeeded, fmt.Sprintf("keep the capabilities %x (%v)", caps, err))
	}
	if limit := memoryLimit(); limit != x.Memory {
		succeeded = append(succeeded, fmt.Sprintf("take %d bytes of memory", limit))
	}
	return succeeded
}

func (x Targets) attempts() map[string]func() error {
	dial := func(network, address string) func() error {
		return func() error {
			conn, err := net.DialTimeout(network, address, 5*time.Second)
			if err == nil {
				_ = conn.Close()
			}
			return err
		}
	}
	return map[string]func() error{
		"read a file":  func() error { _, err := os.ReadFile(x.File); return err },
		"write a file": func() error { return os.WriteFile(x.File, []byte("secret"), 0o666) },
		"make a file": func() error {
			return x.made(func(path string) error { return os.WriteFile(path, nil, 0o600) })
		},
		"make a link": func() error {
			return x.made(func(path string) error { return os.Symlink(x.File, path) })
		},
		"list a directory": func() error { _, err := os.ReadDir(x.Dir); return err },
		"read a process' environment": func() error {
			_, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", x.PID))
			return err
		},
		"look around in /proc": func() error { _, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", x.PID)); return err },
		"connect by TCP":       dial("tcp", x.TCP),
		"send by UDP":          dial("udp", x.TCP),
		"connect to a path":    dial("unix", x.Unix),
		"connect to a name":    dial("unix", x.Abstract),
		"listen": func() error {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err == nil {
				_ = l.Close()
			}
			return err
		},
		"signal a process": func() error { return unix.Kill(x.PID, 0) },
		"get a processor before others": func() error {
			const last = 1 // the kernel's value for niceness 19
			if priority, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err != nil || priority > last {
				return err
			}
			return unix.Setpriority(unix.PRIO_PROCESS, 0, 0)
		},
		"read the memory of a process": func() error {
			var b [1]byte
			local, remote := []unix.Iovec{{Base: &b[0], Len: 1}}, []unix.RemoteIovec{{Base: uintptr(unsafe.Pointer(&b)), Len: 1}}
			_, err := unix.ProcessVMReadv(x.PID, local, remote, 0)
			return err
		},
		"become root": func() error {
			if os.Getuid() == 0 {
				return errors.New("it is root, which its lack of capabilities has to make up for")
			}
			return unix.Setuid(0)
		},
		"make a namespace": func() error {
			pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, unix.CLONE_NEWUSER|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
			if errno != 0 {
				return errno
			}
			if pid == 0 {
				_, _, _ = unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
			}
			_, err := unix.Wait4(int(pid), nil, 0, nil)
			return err
		},
	}
}

// made makes a file in the open directory and removes it.
func (x Targets) made(do func(path string) error) error {
	path := filepath.Join(x.Dir, fmt.Sprint(os.Getpid()))
	err := do(path)
	if err == nil {
		_ = os.Remove(path)
	}
	return err
}

func capabilities() (all uint64, err error) {
	header, data := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, [2]unix.CapUserData{}
	err = unix.Capget(&header, &data[0])
	return uint64(data[0].Permitted|data[0].Effective) | uint64(data[1].Permitted|data[1].Effective)<<32, err
}

// memoryLimit returns the memory limit of the process.
func memoryLimit() uint64 {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_DATA, &limit); err != nil {
		return 0
	}
	return limit.Cur
}

package cloudhypervisor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"writ/internal/confine"
	"writ/internal/pidfd"
	"writ/internal/procstat"
	"writ/internal/unixsocket"
)

// held is a process with an open pidfd, so its PID is not reused.
type held struct {
	*pidfd.Process
	pid     int
	started uint64 // start time in clock ticks since the boot of the host
}

// hold returns the process with this PID, or nil if it has ended. The caller must release it.
func hold(pid int) (*held, error) {
	p, err := pidfd.Open(pid)
	if err != nil || p == nil {
		return nil, err
	}
	h := &held{Process: p, pid: pid}
	if h.started, err = startOf(pid); err != nil || h.ended() {
		h.release()
		return nil, nil
	}
	return h, nil
}

func (h *held) release()                       { h.Process.Close() }
func (h *held) ended() bool                    { return h.Ended() }
func (h *held) wait(ctx context.Context) error { return h.Wait(ctx) }
func (h *held) terminate() error               { return h.Signal(unix.SIGTERM) }
func (h *held) kill() error                    { return h.Signal(unix.SIGKILL) }

// startOf reads the start time of a process.
func startOf(pid int) (uint64, error) {
	fields, err := procstat.Fields(pid)
	if err != nil {
		return 0, err
	}
	return procstat.Start(fields)
}

// argumentsOf returns the arguments of a process, or nil if it has ended.
func argumentsOf(pid int) []string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || len(text) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
}

// withArguments returns the PIDs of the processes whose arguments match, except processes in containers.
func withArguments(are func(args []string) bool) ([]int, error) {
	running, err := confine.Running()
	if err != nil {
		return nil, err
	}
	var all []int
	until := time.Now().Add(confine.ExecTime)
	for _, pid := range running {
		args := argumentsOf(pid)
		if args == nil && confine.AwaitArguments(pid, until) {
			args = argumentsOf(pid)
		}
		if are(args) && confine.OfThisHost(pid) {
			all = append(all, pid)
		}
	}
	return all, nil
}

// thisBoot returns the boot ID of the host.
func thisBoot() (string, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text)), err
}

// spawn starts a process in a cell, with `name` as its first argument and `files` as file descriptors 3 and following.
// The process has its own session, so it survives the end of the driver. A goroutine waits for the process, so that it
// does not become a zombie.
func spawn(cell confine.Cell, program, name string, args []string, log *os.File, files ...*os.File) (*held, error) {
	cmd := exec.Command(program, args...)
	cmd.Args[0] = name
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = files
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := confine.Start(cmd, cell); err != nil {
		return nil, err
	}
	h, err := hold(cmd.Process.Pid) // the PID cannot be reused before Wait
	go func() { _ = cmd.Wait() }()
	if err != nil {
		return nil, errors.Join(err, cmd.Process.Kill())
	}
	if h == nil {
		return nil, errEnded
	}
	return h, nil
}

// listenAt makes a socket at path and returns it for a child process. If another process listens there, the error
// contains its PID and arguments.
//
//failpoint:none the caller names the write
func listenAt(path string) (*os.File, error) {
	if pid, err := listener(path); err != nil || pid != 0 {
		if err == nil {
			err = foreignError(pid)
		}
		return nil, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) { // left by a process that was killed
		return nil, err
	}
	l, err := unixsocket.Listen(path)
	if err != nil {
		return nil, err
	}
	defer l.Close() // with an open copy in the driver, clients could still connect after the process has ended
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, err
	}
	return l.File()
}

// listener returns the PID of the process that listens at a socket, or 0. It also returns 0 for a socket that this
// process created: no foreign process listens there.
func listener(path string) (int, error) {
	c, err := unixsocket.Dial(context.Background(), path) // a socket on this host answers at once
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer c.Close()
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	var who *unix.Ucred
	failed := raw.Control(func(fd uintptr) {
		who, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET,
			unix.SO_PEERCRED)
	})
	if err := errors.Join(err, failed); err != nil {
		return 0, err
	}
	if int(who.Pid) == os.Getpid() {
		return 0, nil
	}
	return int(who.Pid), nil
}

// setTapOwner lets a user attach to an existing tap. Afterwards, only this user and root can attach.
func setTapOwner(name string, user uint32) error {
	if _, err := net.InterfaceByName(name); err != nil {
		return err // attaching to a missing tap would create it
	}
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR) // same flags as cloud-hypervisor
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		return err
	}
	if err := unix.IoctlSetInt(fd, unix.TUNSETOWNER, int(user)); err != nil {
		return err
	}
	// The kernel checks owner and group, and the tap may have another group.
	return unix.IoctlSetInt(fd, unix.TUNSETGROUP, int(user))
}

// farthest is a file offset in bytes beyond any allocated space.
const farthest = 1 << 42

// punch releases the disk space of a file between two offsets, which may be beyond its end. The size of the file does
// not change, and reads in the range return zeros.
func punch(f *os.File, from, to int64) error {
	return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, from, to-from)
}

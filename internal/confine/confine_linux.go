package confine

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"writ/internal/timerslack"
)

// Start starts a process in a cell. The process can never gain rights that the starting process does not have
// (no_new_privs); if in.User or in.Sandbox is set, it has no capabilities. It has the default timer slack, not
// the one of daemons.
//
// The error is a *Barred if the user may not execute the program.
//
// The process inherits these properties from the thread that starts it. A thread cannot revert some of them, so the
// starting thread ends afterwards.
func Start(cmd *exec.Cmd, in Cell) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	if in.Namespace == "" {
		in.Namespace = "/proc/thread-self/ns/net" // of this thread, not of the starting thread
	}
	namespace, err := os.Open(in.Namespace)
	if err != nil {
		return fmt.Errorf("open the network namespace: %w", err)
	}
	defer namespace.Close()
	started := make(chan error, 1)
	go onOwnThread(started, func() error { return start(cmd, in, namespace) })
	return <-started
}

// onOwnThread runs `do` on a thread that ends afterwards. The main thread of the process cannot end alone, so for a
// caller on the main thread, `do` runs on another thread.
func onOwnThread(done chan<- error, do func() error) {
	runtime.LockOSThread() // not unlocked, so the thread ends, unless it is the main thread
	if unix.Gettid() != os.Getpid() {
		done <- do()
		return
	}
	defer runtime.UnlockOSThread()
	inner := make(chan error, 1)
	go onOwnThread(inner, do) // the main thread is locked here, so this runs on another thread
	done <- <-inner
}

func start(cmd *exec.Cmd, in Cell, namespace *os.File) error {
	if in.Sandbox != nil && in.Groups != nil {
		return errors.New("a sandboxed process has limits instead of a group")
	}
	if err := join(namespace); err != nil {
		return fmt.Errorf("enter the network namespace: %w", err)
	}
	if in.Groups != nil {
		entry, err := in.Groups.Open(in.Group)
		if err != nil {
			return fmt.Errorf("open the group: %w", err)
		}
		defer entry.Close()
		if err := entry.Enter(); err != nil {
			return fmt.Errorf("enter the group: %w", err)
		}
		if entry.Dir != nil {
			cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(entry.Dir.Fd())
		}
	}
	if in.User != 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{
			Uid: in.User, Gid: in.User, Groups: append(deviceGroups(in.Devices), in.SharedGroup),
		}
	}
	if err := timerslack.Set(timerslack.Default); err != nil {
		return err
	}
	if in.User != 0 || in.Sandbox != nil {
		if err := dropCapabilities(); err != nil {
			return fmt.Errorf("drop capabilities: %w", err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("prevent new rights (no_new_privs): %w", err)
	}
	if in.Sandbox != nil {
		for _, f := range in.Sandbox.Files {
			cmd.ExtraFiles = append(cmd.ExtraFiles, f.File)
		}
		if barred := in.obstacle(cmd.Path); barred != nil {
			return barred
		}
		if err := in.Sandbox.enter(cmd, in.User); err != nil {
			return fmt.Errorf("enter the sandbox: %w", err)
		}
	}
	err := cmd.Start()
	if errors.Is(err, unix.EACCES) { // the mode of the program or of a directory above it may forbid execution
		if barred := in.obstacle(cmd.Path); barred != nil {
			return barred
		}
	}
	return err
}

// join moves this thread into a network namespace, unless the thread is in it already: the move requires privileges.
func join(namespace *os.File) error {
	there, err := namespace.Stat()
	if err != nil {
		return err
	}
	if here, err := os.Stat("/proc/thread-self/ns/net"); err == nil && os.SameFile(here, there) {
		return nil
	}
	return unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET)
}

// dropCapabilities clears the bounding, ambient and inheritable capabilities of this thread, which its children would
// inherit. The children cannot regain them.
func dropCapabilities() error {
	text, err := os.ReadFile("/proc/sys/kernel/cap_last_cap")
	if err != nil {
		return err
	}
	last, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return err
	}
	for c := range last + 1 {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0)
		// EPERM: without CAP_SETPCAP, as in some containers, the bounding set cannot change. no_new_privs then still
		// prevents new capabilities.
		if err != nil && !errors.Is(err, unix.EPERM) {
			return err
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	header, data := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, [2]unix.CapUserData{}
	if err := unix.Capget(&header, &data[0]); err != nil {
		return err
	}
	data[0].Inheritable, data[1].Inheritable = 0, 0
	return unix.Capset(&header, &data[0])
}

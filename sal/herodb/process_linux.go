package herodb

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"writ/internal/confine"
	"writ/internal/pidfd"
	"writ/sal"
)

// bootID names this boot of the host.
func bootID() (string, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text)), err
}

// look reads what the kernel says of a process.
func look(number int) (process, error) {
	boot, err := bootID()
	if err != nil {
		return process{}, err
	}
	return lookAt(number, boot)
}

func lookAt(number int, boot string) (process, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", number))
	if err != nil {
		return process{}, err
	}
	// The name of the program is in parentheses and may have any character, also these.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 {
		return process{}, fmt.Errorf("/proc/%d/stat has %d fields behind the name", number, len(fields))
	}
	start, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return process{}, err
	}
	p := process{pid: pid{PID: number, Start: start, Boot: boot}, leads: fields[3] == strconv.Itoa(number)}
	if strings.ContainsAny(fields[0], "ZX") {
		p.dead = fields[17] == "0" || fields[17] == "1" // else other threads of it still have its files open
		p.ending = !p.dead
		return p, nil
	}
	args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", number))
	text := strings.TrimRight(string(args), "\x00")
	p.starting = text == "" // whoever started it goes on a moment before the kernel has its arguments
	p.args = strings.Split(text, "\x00")
	return p, err
}

// maxArgs is how much of a command line is looked at, in bytes: as much as the kernel gives for one page, and a few more.
const maxArgs = 16 << 10

// processesWith are those that have a text among their arguments, and are in no container. A host has thousands of processes; for all but
// these, one file is read.
func processesWith(text string) ([]process, error) {
	boot, err := bootID()
	if err != nil {
		return nil, err
	}
	running, err := confine.Running()
	if err != nil {
		return nil, err
	}
	var all []process
	buffer := make([]byte, maxArgs)
	for _, number := range running {
		if !bytes.Contains(buffer[:readShort(fmt.Sprintf("/proc/%d/cmdline", number), buffer)], []byte(text)) {
			continue
		}
		if p, err := lookAt(number, boot); err == nil && p.args != nil && confine.OfThisHost(number) { // else it has ended meanwhile
			all = append(all, p)
		}
	}
	return all, nil
}

// readShort reads the beginning of a file without all that os.File does for files that may block.
func readShort(path string, buffer []byte) int {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	n, err := unix.Read(fd, buffer)
	if err != nil {
		return 0
	}
	return n
}

// reap lets a child go that has ended. Whoever calls has started it, and calls once.
func reap(number int) { _, _ = unix.Wait4(number, nil, unix.WNOHANG, nil) }

// hold returns a process, nil if it has ended.
func hold(p pid) (sal.Process, error) {
	held, err := pidfd.Open(p.PID)
	if err != nil || held == nil {
		return nil, err
	}
	if now, err := look(p.PID); err != nil || now.pid != p { // its number was given away before it was opened
		held.Close()
		return nil, nil
	}
	return held, nil
}

// signal sends a signal to a process, and to no other one that gets its number meanwhile. One that is gone is no error.
func signal(p pid, s syscall.Signal) error {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if now, err := look(p.PID); err != nil || now.pid != p {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, s, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	return nil
}

// spawn starts a process in a cell, in a session of its own, that outlives this one.
func spawn(cell confine.Cell, args []string, dir string, log *os.File) (pid, error) {
	cmd := &exec.Cmd{
		Path: args[0], Args: args, Dir: dir, Stdout: log, Stderr: log,
		Env:         []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "HOME=" + dir},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if err := confine.Start(cmd, cell); err != nil {
		return pid{}, err
	}
	number := cmd.Process.Pid
	if err := cmd.Process.Release(); err != nil {
		return pid{}, err
	}
	p, err := look(number)
	return p.pid, err
}

// namespaceOf is the path of a process' network namespace.
func namespaceOf(p pid) string { return fmt.Sprintf("/proc/%d/ns/net", p.PID) }

// sameNamespace reports whether two paths are of one namespace.
func sameNamespace(a, b string) (bool, error) {
	x, errA := os.Stat(a)
	y, errB := os.Stat(b)
	if err := errors.Join(errA, errB); err != nil {
		return false, err
	}
	return os.SameFile(x, y), nil
}

// moved reads what an interface of a process' network namespace has received and sent, in bytes.
func moved(p pid, device string) (received, sent int64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/dev", p.PID))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(text)) {
		name, counters, ok := strings.Cut(strings.TrimSpace(line), ":")
		fields := strings.Fields(counters)
		if !ok || name != device || len(fields) < 9 {
			continue
		}
		received, errR := strconv.ParseInt(fields[0], 10, 64)
		sent, errS := strconv.ParseInt(fields[8], 10, 64)
		return received, sent, errors.Join(errR, errS)
	}
	return 0, 0, fs.ErrNotExist
}

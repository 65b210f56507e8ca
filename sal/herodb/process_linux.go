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
	"time"

	"golang.org/x/sys/unix"

	"writ/internal/confine"
	"writ/internal/pidfd"
	"writ/internal/procstat"
	"writ/sal"
)

// bootID returns the boot ID of the host.
func bootID() (string, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text)), err
}

// look reads the state of a process from /proc.
func look(number int) (process, error) {
	boot, err := bootID()
	if err != nil {
		return process{}, err
	}
	return readProcessOf(number, boot)
}

func readProcessOf(number int, boot string) (process, error) {
	fields, err := procstat.Fields(number)
	if err != nil {
		return process{}, err
	}
	start, err := procstat.Start(fields)
	if err != nil {
		return process{}, err
	}
	p := process{pid: pid{PID: number, Start: start, Boot: boot}, leads: fields[3] == strconv.Itoa(number)}
	if strings.ContainsAny(fields[0], "ZX") {
		p.dead = fields[17] == "0" || fields[17] == "1" // otherwise its other threads still have files open
		p.ending = !p.dead
		return p, nil
	}
	args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", number))
	text := strings.TrimRight(string(args), "\x00")
	p.starting = text == "" // before exec completes, the kernel does not have the arguments
	p.args = strings.Split(text, "\x00")
	return p, err
}

// maxArgs limits the bytes that are read of a command line: several pages.
const maxArgs = 16 << 10

// processesWith returns the processes outside of containers whose arguments contain a text. It reads only one file for
// each other process, because a host can have thousands of processes.
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
	until := time.Now().Add(confine.ExecTime)
	for _, number := range running {
		path := fmt.Sprintf("/proc/%d/cmdline", number)
		n := readShort(path, buffer)
		if n == 0 && confine.AwaitArguments(number, until) {
			n = readShort(path, buffer)
		}
		if !bytes.Contains(buffer[:n], []byte(text)) {
			continue
		}
		// A process that fails these checks has ended meanwhile.
		if p, err := readProcessOf(number, boot); err == nil && p.args != nil && confine.OfThisHost(number) {
			all = append(all, p)
		}
	}
	return all, nil
}

// readShort reads the beginning of a file without the overhead of os.File.
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

// reap waits for a child that has ended. It must be called once, in the process that started the child.
func reap(number int) { _, _ = unix.Wait4(number, nil, unix.WNOHANG, nil) }

// hold is openProcess with the result type of sal.Served.
func hold(p pid) (sal.Process, error) {
	held, err := openProcess(p)
	if held == nil {
		return nil, err
	}
	return held, nil
}

// openProcess returns a handle of a process, or nil if the process has ended. The caller must close it.
func openProcess(p pid) (*pidfd.Process, error) {
	held, err := pidfd.Open(p.PID)
	if err != nil || held == nil {
		return nil, err
	}
	if now, err := look(p.PID); err != nil || now.pid != p { // the PID was reused before it was opened
		held.Close()
		return nil, nil
	}
	return held, nil
}

// signal sends a signal to a process, and never to another process that reuses its PID. It is not an error if the
// process has ended.
func signal(p pid, s syscall.Signal) error {
	held, err := openProcess(p)
	if err != nil || held == nil {
		return err
	}
	defer held.Close()
	return held.Signal(s)
}

// spawn starts a process in a cell, with its own session, so that it survives this process.
func spawn(cell confine.Cell, args []string, dir string, log *os.File) (pid, error) {
	cmd := &exec.Cmd{
		Path: args[0], Args: args, Dir: dir, Stdout: log, Stderr: log,
		Env: []string{
			"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "HOME=" + dir,
		},
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

// namespaceOf returns the path of a process's network namespace.
func namespaceOf(p pid) string { return fmt.Sprintf("/proc/%d/ns/net", p.PID) }

// sameNamespace reports whether two paths refer to the same namespace.
func sameNamespace(a, b string) (bool, error) {
	x, errA := os.Stat(a)
	y, errB := os.Stat(b)
	if err := errors.Join(errA, errB); err != nil {
		return false, err
	}
	return os.SameFile(x, y), nil
}

// moved returns the bytes that an interface in a process's network namespace has received and sent.
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

package confine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"writ/internal/sleep"
)

// RunsAs reports whether all user IDs of a process of this host equal user; 0 means the user of the caller. It does not
// use the owner of files in /proc, because root owns the files of a non-dumpable process.
func RunsAs(pid int, user uint32) bool {
	if user == 0 {
		user = uint32(os.Geteuid())
	}
	s, err := statusOf(pid)
	return err == nil && s.users == [4]uint32{user, user, user, user} && OfThisHost(pid)
}

// OfThisHost reports whether this process could have started the process pid. It returns false for a process in a
// container, which has its own PID namespace or root directory: root in a container can imitate any user and any
// arguments.
func OfThisHost(pid int) bool {
	is, err := inOwnNamespace(pid)
	if errors.Is(err, fs.ErrPermission) { // only root may inspect a program with file capabilities
		return true
	}
	return err == nil && !is
}

// inOwnNamespace reports whether a process has its own PID namespace or root directory.
func inOwnNamespace(pid int) (bool, error) {
	own, err := statusOf(os.Getpid())
	if err != nil {
		return false, err
	}
	s, err := statusOf(pid)
	if err != nil || s.levels != own.levels {
		return err == nil, err
	}
	return other(pid, "root/.", "/")
}

// other reports whether the file `name` of a process in /proc differs from `ours`, the path of a file of this process.
func other(pid int, name, ours string) (bool, error) {
	its, err := os.Stat(fmt.Sprintf("/proc/%d/%s", pid, name))
	if err != nil {
		return false, err
	}
	here, err := os.Stat(ours)
	return err == nil && !os.SameFile(its, here), err
}

// status is the state of a process in /proc.
type status struct {
	users  [4]uint32 // real, effective, saved, file system
	levels int       // number of nested PID namespaces
	ended  bool      // a zombie that was not reaped
}

func statusOf(pid int) (s status, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return s, err
	}
	zombie, threads := false, 0
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch name {
		case "State":
			zombie = strings.HasPrefix(value, "Z") || strings.HasPrefix(value, "X")
		case "Uid":
			_, err = fmt.Sscan(value, &s.users[0], &s.users[1], &s.users[2], &s.users[3])
		case "NSpid":
			s.levels = len(strings.Fields(value))
		case "Threads":
			threads, _ = strconv.Atoi(value)
		}
	}
	s.ended = zombie && threads <= 1 // otherwise other threads still run
	return s, err
}

// Running returns the PIDs of all processes of the host, unordered.
func Running() ([]int, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var all []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			all = append(all, pid)
		}
	}
	return all, nil
}

// ExecTime limits the waits of a search for all processes that execute a program at that moment.
const ExecTime = time.Second

// AwaitArguments waits for the arguments of a process of this host, and reports whether it has some. The kernel reports
// a process as started shortly before it has the arguments of the process, longer if it must read the program from a
// slow disk. A search by arguments that does not wait could miss a process whose start was interrupted, and the process
// would run for ever. AwaitArguments returns false at once for a thread of the kernel and for a process that has ended,
// and at `until` for a process that removed its arguments.
func AwaitArguments(pid int, until time.Time) bool {
	for hasProgram(pid) && OfThisHost(pid) {
		if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err != nil || len(text) > 0 {
			return err == nil
		}
		if time.Now().After(until) {
			return false
		}
		time.Sleep(time.Millisecond)
	}
	return false
}

// hasProgram returns false for a thread of the kernel and for a process that has ended.
func hasProgram(pid int) bool {
	_, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	return err == nil
}

// Processes returns the processes that run as a user, without those in containers.
func Processes(user uint32) ([]int, error) {
	all, err := processes(func(its uint32) bool { return its == user })
	return slices.DeleteFunc(all[user], contained), err
}

// processes returns the processes of several users, including those in containers.
func processes(of func(user uint32) bool) (map[uint32][]int, error) {
	running, err := Running()
	if err != nil {
		return nil, err
	}
	all := map[uint32][]int{}
	for _, pid := range running {
		s, err := statusOf(pid)
		if user := s.users[0]; err == nil && !s.ended && of(user) { // an unprivileged process has a single user ID
			all[user] = append(all[user], pid)
		}
	}
	return all, nil
}

// contained reports whether a process is in a container whose root switched to the user. An unprivileged process can
// get its own PID namespace or root directory only in its own user namespace; such a process does not count as
// contained, so that it is found and ended. If the kernel does not permit the check, the process does not count as
// contained.
func contained(pid int) bool {
	if made, err := other(pid, "ns/user", "/proc/self/ns/user"); err != nil || made {
		return false
	}
	is, err := inOwnNamespace(pid)
	return err == nil && is
}

// between is the poll interval of End.
const between = 2 * time.Millisecond

// End kills all processes of a user, except those in containers. If it returns nil, none of these processes is left.
func End(ctx context.Context, user uint32) error {
	if user == 0 {
		return errors.New("the processes of root must not be ended")
	}
	for {
		all, err := Processes(user)
		if err != nil || len(all) == 0 {
			return err
		}
		for _, pid := range all {
			if err := kill(pid, user); err != nil {
				return err
			}
		}
		if err := sleep.For(ctx, between); err != nil {
			return fmt.Errorf("the user %d still has processes: %w", user, err)
		}
	}
}

// kill kills a process if the user owns it, and never another process that reuses its PID.
func kill(pid int, user uint32) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if s, err := statusOf(pid); err != nil || s.users[0] != user || contained(pid) {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	return nil
}

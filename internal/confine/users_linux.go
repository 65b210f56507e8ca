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
)

// RunsAs reports whether a process of this host is a user in every respect; 0 is whoever asks. Its files in /proc do not tell: those of a
// process that hides its memory belong to root.
func RunsAs(pid int, user uint32) bool {
	if user == 0 {
		user = uint32(os.Geteuid())
	}
	s, err := statusOf(pid)
	return err == nil && s.users == [4]uint32{user, user, user, user} && OfThisHost(pid)
}

// OfThisHost reports whether a process could have been started by this one: it has neither process numbers nor a root directory of its own,
// as what is in a container has. There, root may become any user and give itself any arguments.
func OfThisHost(pid int) bool {
	is, err := apart(pid)
	if errors.Is(err, fs.ErrPermission) { // of a program that was given capabilities by its file, only root may look
		return true
	}
	return err == nil && !is
}

// apart reports whether a process has process numbers or a root directory of its own.
func apart(pid int) (bool, error) {
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

// other reports whether something of a process is another file than one of ours.
func other(pid int, name, ours string) (bool, error) {
	its, err := os.Stat(fmt.Sprintf("/proc/%d/%s", pid, name))
	if err != nil {
		return false, err
	}
	here, err := os.Stat(ours)
	return err == nil && !os.SameFile(its, here), err
}

// status is what the kernel says of a process.
type status struct {
	users  [4]uint32 // real, effective, saved, and the one for files
	levels int       // in how many nested namespaces it has a number
	ended  bool      // nobody has asked yet how
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
	s.ended = zombie && threads <= 1 // else others of its threads go on
	return s, err
}

// Running are the numbers of all processes of the host, in no order.
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

// Processes are those that run as a user, short of what a container has of the same number.
func Processes(user uint32) ([]int, error) {
	all, err := processes(func(its uint32) bool { return its == user })
	return slices.DeleteFunc(all[user], contained), err
}

// processes are those of several users, also what containers have.
func processes(of func(user uint32) bool) (map[uint32][]int, error) {
	running, err := Running()
	if err != nil {
		return nil, err
	}
	all := map[uint32][]int{}
	for _, pid := range running {
		s, err := statusOf(pid)
		if user := s.users[0]; err == nil && !s.ended && of(user) { // who has no rights has one user
			all[user] = append(all[user], pid)
		}
	}
	return all, nil
}

// contained reports whether a process is in a container whose root became that user. Without rights nobody gets process numbers or a root
// directory of its own, except in a user namespace that it made: who did that is to be found and ended as anybody else. A process of which
// the kernel does not tell is none of a container.
func contained(pid int) bool {
	if made, err := other(pid, "ns/user", "/proc/self/ns/user"); err != nil || made {
		return false
	}
	is, err := apart(pid)
	return err == nil && is
}

// between is the pause between two looks whether a user's processes have ended.
const between = 2 * time.Millisecond

// End kills whatever runs as a user of its own. When it returns nil, nothing does.
func End(ctx context.Context, user uint32) error {
	if user == 0 {
		return errors.New("root's processes are not one's own")
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
		pause := time.NewTimer(between)
		select {
		case <-ctx.Done():
			pause.Stop()
			return fmt.Errorf("the user %d still has processes: %w", user, ctx.Err())
		case <-pause.C:
		}
	}
}

// kill kills a process, if it is a user's, and no other one that gets its number meanwhile.
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

package confine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// RunsAs reports whether a process is a user in every respect; 0 is whoever asks. Its files in /proc do not tell: those of a process that
// hides its memory belong to root.
func RunsAs(pid int, user uint32) bool {
	if user == 0 {
		user = uint32(os.Geteuid())
	}
	s, err := statusOf(pid)
	return err == nil && s.users == [4]uint32{user, user, user, user}
}

// status is what the kernel says of a process.
type status struct {
	users [4]uint32 // real, effective, saved, and the one for files
	ended bool      // nobody has asked yet how
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

// Processes are those that run as a user.
func Processes(user uint32) ([]int, error) {
	running, err := Running()
	if err != nil {
		return nil, err
	}
	var all []int
	for _, pid := range running {
		if s, err := statusOf(pid); err == nil && !s.ended && s.users[0] == user { // who has no rights has one user
			all = append(all, pid)
		}
	}
	return all, nil
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
	if !RunsAs(pid, user) {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	return nil
}

package confine

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// errOpen is the error of a sandbox that would not protect files.
var errOpen = errors.New("this kernel has no Landlock, and the process has no separate user")

// Landlock returns the Landlock version of the kernel.
func Landlock() (version int, err error) {
	n, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// Holds returns the reason why a sandbox without a separate user does not protect files on this host, or nil.
func Holds() error {
	if _, err := Landlock(); err != nil {
		return errOpen
	}
	return nil
}

// enter puts this thread and the command that it starts into a sandbox. The thread cannot leave it.
func (s *Sandbox) enter(cmd *exec.Cmd, user uint32) error {
	switch err := unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWIPC); {
	case err == nil:
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWPID // its children end with it
	case !errors.Is(err, unix.EPERM): // without the privilege, the system call filter alone blocks the network
		return fmt.Errorf("leave the network: %w", err)
	}
	if err := s.fence(cmd.Path, user); err != nil {
		return fmt.Errorf("restrict file access: %w", err)
	}
	if err := filterCalls(); err != nil {
		return fmt.Errorf("filter system calls: %w", err)
	}
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, niceness); err != nil {
		return fmt.Errorf("lower the CPU priority: %w", err)
	}
	s.Limits.wrap(cmd, user)
	return nil
}

// niceness is the maximum: untrusted work only gets idle CPU time.
const niceness = 19

const (
	readFile  = unix.LANDLOCK_ACCESS_FS_READ_FILE
	writeFile = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	readDir   = unix.LANDLOCK_ACCESS_FS_EXECUTE | readFile | unix.LANDLOCK_ACCESS_FS_READ_DIR
)

// handled returns all accesses that a version of Landlock can restrict.
func handled(version int) unix.LandlockRulesetAttr {
	all := unix.LandlockRulesetAttr{Handled_access_fs: 1<<13 - 1}
	if version >= 2 {
		all.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if version >= 3 {
		all.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if version >= 4 {
		all.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	if version >= 5 {
		all.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if version >= 6 {
		all.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	return all
}

// fence restricts file access to the files of the sandbox.
func (s *Sandbox) fence(program string, user uint32) error {
	version, err := Landlock()
	if err != nil {
		if user == 0 {
			return errOpen
		}
		return nil // file modes keep the user out
	}
	all := handled(version)
	// Older kernels only accept the first fields; newer kernels accept each of these lengths.
	size := unsafe.Sizeof(all.Handled_access_fs)
	switch {
	case version >= 6:
		size *= 3
	case version >= 4:
		size *= 2
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&all)), size, 0)
	if errno != 0 {
		return errno
	}
	rules := int(fd)
	defer unix.Close(rules)
	if program, err = filepath.EvalSymlinks(program); err != nil {
		return err
	}
	interpreter, err := filepath.EvalSymlinks(shell)
	if err != nil {
		return err
	}
	for _, path := range append(append([]string{program, interpreter, os.DevNull}, libraries...), s.Read...) {
		if err := allow(rules, path, all.Handled_access_fs); err != nil {
			return fmt.Errorf("allow %s: %w", path, err)
		}
	}
	for _, f := range s.Files {
		access := uint64(readFile)
		if f.Write {
			access |= writeFile & all.Handled_access_fs
		}
		if err := allowAt(rules, int(f.Fd()), access); err != nil {
			return fmt.Errorf("allow %s: %w", f.Name(), err)
		}
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// allow permits reading and executing everything below a path. A missing path is ignored.
func allow(rules int, path string, handled uint64) error {
	at, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(at)
	var stat unix.Stat_t
	if err := unix.Fstat(at, &stat); err != nil {
		return err
	}
	access := uint64(readDir)
	switch {
	case path == os.DevNull:
		access = (readFile | writeFile) & handled
	case stat.Mode&unix.S_IFMT != unix.S_IFDIR:
		access &^= unix.LANDLOCK_ACCESS_FS_READ_DIR
	}
	return allowAt(rules, at, access)
}

func allowAt(rules, at int, access uint64) error {
	rule := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(at)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(rules), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// shell sets resource limits before it executes the program. A process may always lower its own limits.
const shell = "/bin/sh"

// wrap makes cmd set the limits in a shell, which then executes the program.
func (l Limits) wrap(cmd *exec.Cmd, user uint32) {
	const block = 512 // bytes; the unit of file sizes in shells
	script := "ulimit -c 0"
	for _, limit := range []struct {
		flag  string
		value uint64
	}{
		{"d", (l.Memory + 1023) / 1024}, {"f", (l.FileSize + block - 1) / block},
		{"t", uint64((l.CPU + time.Second - 1) / time.Second)}, {"n", l.Files},
	} {
		if limit.value > 0 {
			script += fmt.Sprintf(" && ulimit -%s %d", limit.flag, limit.value)
		}
	}
	if l.Processes > 0 && user != 0 { // the option differs between shells
		script += fmt.Sprintf(" && { ulimit -p %d 2>/dev/null || ulimit -u %d; }", l.Processes, l.Processes)
	}
	cmd.Args = append([]string{"sh", "-c", script + ` && exec "$@"`, "sh", cmd.Path}, cmd.Args[1:]...)
	cmd.Path = shell
}

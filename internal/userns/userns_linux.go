package userns

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Open makes a user namespace whose users and groups from 0 on are those from first on outside. It is there as long as the file, what
// the file was mounted as, or a process in it.
func Open(first uint32) (*os.File, error) {
	var user *os.File
	err := within(first, 0, func(process string) (err error) {
		user, err = os.Open(process + "/ns/user")
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("make a user namespace: %w", err)
	}
	return user, nil
}

// KeepNetwork makes a network namespace that a file keeps, which must exist and be empty. It belongs to a user namespace of its own as Open
// makes it, so that root in there has it and no other.
func KeepNetwork(first uint32, path string) error {
	err := within(first, unix.CLONE_NEWNET, func(process string) error {
		return unix.Mount(process+"/ns/net", path, "", unix.MS_BIND, "")
	})
	if err != nil {
		return fmt.Errorf("make a network namespace for users of its own: %w", err)
	}
	return nil
}

// OfNetwork is the user namespace that the network namespace of a file belongs to, which must not be that of the host.
func OfNetwork(path string) (*os.File, error) {
	network, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer network.Close()
	fd, err := unix.IoctlRetInt(int(network.Fd()), unix.NS_GET_USERNS)
	if err != nil {
		return nil, fmt.Errorf("look whose the network namespace %s is: %w", path, err)
	}
	user := os.NewFile(uintptr(fd), "user namespace of "+path)
	is, err := user.Stat()
	own, failed := os.Stat("/proc/self/ns/user")
	if err = errors.Join(err, failed); err == nil && os.SameFile(is, own) {
		err = fmt.Errorf("the network namespace %s belongs to the users of the host", path)
	}
	if err != nil {
		return nil, errors.Join(err, user.Close())
	}
	return user, nil
}

// Show shows the tree of files at a path in another place, where what is n's belongs to the user n of the namespace. What is mounted
// below is not shown. Both are directories or both are not.
func Show(user *os.File, from, to string) error {
	tree, err := mapped(user, from)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, to, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount %s at %s: %w", from, to, err)
	}
	return nil
}

// Try returns why the tree at a path cannot be shown to users from first on, nil if it can. Nothing is left of it.
func Try(first uint32, path string) error {
	user, err := Open(first)
	if err != nil {
		return err
	}
	defer user.Close()
	tree, err := mapped(user, path)
	if err != nil {
		return err
	}
	return unix.Close(tree)
}

// mapped is a copy of the mount of a path that is nowhere yet.
func mapped(user *os.File, path string) (tree int, err error) {
	tree, err = unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return -1, fmt.Errorf("copy the mount of %s: %w", path, err)
	}
	attr := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(user.Fd())}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, attr); err != nil {
		return -1, errors.Join(fmt.Errorf("show %s as other users have it (an idmapped mount): %w", path, err), unix.Close(tree))
	}
	return tree, nil
}

// within starts a process in namespaces of its own, calls do with its directory below /proc, and ends it. The process is this program, held
// before its first instruction.
func within(first uint32, kinds uintptr, do func(process string) error) error {
	runtime.LockOSThread() // the process ends with the thread that started it
	defer runtime.UnlockOSThread()
	numbers := []syscall.SysProcIDMap{{HostID: int(first), Size: Many}}
	held, err := os.StartProcess("/proc/self/exe", []string{"writ-namespace"}, &os.ProcAttr{Sys: &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER | kinds, UidMappings: numbers, GidMappings: numbers, GidMappingsEnableSetgroups: true, Ptrace: true, Pdeathsig: syscall.SIGKILL,
	}})
	if err != nil {
		return err
	}
	defer func() {
		_ = held.Kill()
		_, _ = held.Wait()
	}()
	return do(fmt.Sprintf("/proc/%d", held.Pid)) // of nobody else, as long as nobody waited for it
}

package userns

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Open creates a user namespace. User and group n in it are the user and group first+n of the host. The namespace
// exists while the returned file is open, a mount uses the namespace, or a process is in it.
func Open(first uint32) (*os.File, error) {
	var user *os.File
	err := within(first, 0, func(process string) (err error) {
		user, err = os.Open(process + "/ns/user")
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("create a user namespace: %w", err)
	}
	return user, nil
}

// KeepNetwork creates a network namespace and binds it to a file, which must exist and be empty. It belongs to its own
// user namespace, as created by Open, so that only root in that namespace owns it.
func KeepNetwork(first uint32, path string) error {
	err := within(first, unix.CLONE_NEWNET, func(process string) error {
		return unix.Mount(process+"/ns/net", path, "", unix.MS_BIND, "")
	})
	if err != nil {
		return fmt.Errorf("create a network namespace in a separate user namespace: %w", err)
	}
	return nil
}

// OfNetwork returns the user namespace that owns the network namespace of a file. It returns an error if that is the
// user namespace of this process.
func OfNetwork(path string) (*os.File, error) {
	network, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer network.Close()
	fd, err := unix.IoctlRetInt(int(network.Fd()), unix.NS_GET_USERNS)
	if err != nil {
		return nil, fmt.Errorf("find the owner of the network namespace %s: %w", path, err)
	}
	user := os.NewFile(uintptr(fd), "user namespace of "+path)
	is, err := user.Stat()
	own, failed := os.Stat("/proc/self/ns/user")
	if err = errors.Join(err, failed); err == nil && os.SameFile(is, own) {
		err = fmt.Errorf("the network namespace %s belongs to the host's user namespace", path)
	}
	if err != nil {
		return nil, errors.Join(err, user.Close())
	}
	return user, nil
}

// Show mounts the file tree `from` at the path `to`, with mapped owners: a file of user n on the host belongs to user n
// of the namespace at `to`. It excludes mounts below `from`. Both paths must be directories, or both files.
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

// Try returns the error that Show would return for the tree at a path, in a namespace whose user 0 is the host's user
// `first`. It returns nil if Show would succeed, and leaves no mount.
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

// mapped returns a detached, id-mapped copy of the mount at a path.
func mapped(user *os.File, path string) (tree int, err error) {
	tree, err = unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return -1, fmt.Errorf("copy the mount of %s: %w", path, err)
	}
	attr := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(user.Fd())}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, attr); err != nil {
		return -1, errors.Join(fmt.Errorf("map the owners of %s in an idmapped mount: %w", path, err),
			unix.Close(tree))
	}
	return tree, nil
}

// within starts a process in new namespaces, calls `do` with the process's directory in /proc, and kills the process.
// The process is this program, stopped before its first instruction.
func within(first uint32, kinds uintptr, do func(process string) error) error {
	runtime.LockOSThread() // the process ends with the thread that started it
	defer runtime.UnlockOSThread()
	numbers := []syscall.SysProcIDMap{{HostID: int(first), Size: Many}}
	held, err := os.StartProcess("/proc/self/exe", []string{"writ-namespace"}, &os.ProcAttr{Sys: &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER | kinds, UidMappings: numbers, GidMappings: numbers, GidMappingsEnableSetgroups: true,
		Ptrace: true, Pdeathsig: syscall.SIGKILL,
	}})
	if err != nil {
		return err
	}
	defer func() {
		_ = held.Kill()
		_, _ = held.Wait()
	}()
	return do(fmt.Sprintf("/proc/%d", held.Pid)) // the pid is not reused before Wait
}

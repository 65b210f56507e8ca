//go:build cgo

package btrfs

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Definitions from linux/btrfs.h that the library lacks: quotas and the id of a file system. The definitions for nested
// subvolumes are in nested_linux.go.

// ioc returns the number of a btrfs ioctl. direction is 1 if the kernel reads the argument, 2 if it writes it, 3 for
// both.
func ioc(direction, number, size uintptr) uintptr { return direction<<30 | size<<16 | 0x94<<8 | number }

// ioctl executes an ioctl on a directory, with an argument without pointers.
func ioctl[T any](dir string, direction, number uintptr, arg *T) error {
	return onDir(dir, func(fd uintptr) error { return call(fd, direction, number, arg) })
}

// call is ioctl for a file descriptor.
func call[T any](fd, direction, number uintptr, arg *T) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, ioc(direction, number, unsafe.Sizeof(*arg)),
		uintptr(unsafe.Pointer(arg)))
	if errno != 0 {
		return errno
	}
	return nil
}

// fileSystemID returns the UUID of the file system of a directory, in the form that sysfs uses.
func fileSystemID(dir string) (string, error) {
	var info struct {
		_  [2]uint64
		id [16]byte
		_  [1024 - 32]byte
	}
	if err := ioctl(dir, 2, 31, &info); err != nil {
		return "", fmt.Errorf("get the id of the file system: %w", err)
	}
	b := info.id
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]), nil
}

// Commands of the quota ioctl.
const (
	quotaEnable       = 1
	quotaEnableSimple = 4
)

// quotasOn reports whether the file system of a directory has quotas of either kind.
func quotasOn(dir string) (bool, error) {
	_, err := sysfs(dir, "qgroups", "enabled")
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// enableQuota enables quotas: simple ones if the kernel supports them and `full` is false, else full ones.
func enableQuota(dir string, full bool) error {
	type control struct{ command, _ uint64 }
	err := error(unix.EINVAL)
	if !full {
		err = ioctl(dir, 3, 40, &control{command: quotaEnableSimple})
	}
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) {
		err = ioctl(dir, 3, 40, &control{command: quotaEnable})
	}
	if err != nil {
		return fmt.Errorf("enable quotas: %w", err)
	}
	return nil
}

// rescanState is the argument of the ioctls for quota rescans.
type rescanState struct {
	flags uint64
	_     [7]uint64 // progress and reserved fields
}

// rescanning reports whether a rescan of full quotas is running.
func rescanning(dir string) (bool, error) {
	var state rescanState
	err := ioctl(dir, 2, 45, &state)
	return err == nil && state.flags != 0, err
}

// inconsistent reports whether the kernel has marked the numbers of full quotas as inconsistent.
func inconsistent(dir string) (bool, error) {
	flag, err := sysfs(dir, "qgroups", "inconsistent")
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return flag == "1", err
}

// rescan starts a rescan of full quotas, which the kernel executes in the background. A running rescan is not an error.
func rescan(dir string) error {
	err := ioctl(dir, 1, 44, &rescanState{})
	if err != nil && !errors.Is(err, unix.EINPROGRESS) {
		return fmt.Errorf("rescan quotas: %w", err)
	}
	return nil
}

// quotaCall is ioctl for quotas. If quotas are off, the error names that cause.
func quotaCall[T any](dir string, direction, number uintptr, arg *T) error {
	err := ioctl(dir, direction, number, arg)
	if errors.Is(err, unix.ENOTCONN) {
		return quotasOff(dir)
	}
	return err
}

// simpleQuota reports whether the file system has simple quotas, which charge a block only to the subvolume that wrote
// it. Full quotas charge a block to every subvolume that shares it.
func simpleQuota(dir string) (bool, error) {
	mode, err := sysfs(dir, "qgroups", "mode")
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // kernels before 6.7
	}
	return mode == "squota", err
}

// limitGroup sets the maximum size of a quota group in bytes; 0 means unlimited.
func limitGroup(dir string, group uint64, bytes int64) error {
	const limitReferenced = 1
	args := struct{ group, flags, referenced, exclusive, reservedReferenced, reservedExclusive uint64 }{
		group: group, flags: limitReferenced, referenced: uint64(bytes),
	}
	if bytes == 0 {
		args.referenced = ^uint64(0) // removes a limit
	}
	if err := quotaCall(dir, 2, 43, &args); err != nil {
		return fmt.Errorf("set a quota: %w", err)
	}
	return nil
}

// makeGroup creates a quota group. It is not an error if the group exists.
func makeGroup(dir string, group uint64) error {
	err := quotaCall(dir, 1, 42, &struct{ create, group uint64 }{1, group})
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("create a quota group: %w", err)
	}
	return nil
}

// joinGroup adds a quota group to a parent group, which then includes the usage of the added group. It is not an error
// if the group is a member already.
func joinGroup(dir string, group, parent uint64) error {
	err := quotaCall(dir, 1, 41, &struct{ assign, group, parent uint64 }{1, group, parent})
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("join a quota group: %w", err)
	}
	return nil
}

// groupLimit returns the maximum size of a quota group in bytes; 0 means unlimited.
func groupLimit(dir string, group uint64) (int64, error) {
	return groupNumber(dir, group, "max_referenced")
}

func groupNumber(dir string, group uint64, name string) (int64, error) {
	text, err := sysfs(dir, "qgroups", fmt.Sprintf("%d_%d", group>>48, group&(1<<48-1)), name)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}

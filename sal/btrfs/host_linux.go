//go:build cgo

package btrfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/containerd/btrfs/v2"
	"golang.org/x/sys/unix"

	"writ"
	"writ/sal"
)

// Usable returns nil if an existing directory can hold trees. Otherwise, it returns DRIVER_MISSING with the cause and a
// remedy.
func Usable(dir string) error {
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return writ.Errorf(writ.CodeDriverMissing, "cannot inspect the file system of %s: %w", dir, err)
	}
	if uint32(stat.Type) != unix.BTRFS_SUPER_MAGIC {
		return writ.Errorf(writ.CodeDriverMissing, "%s is not on btrfs", dir).
			WithHint("mount a btrfs file system there: apt-get install -y btrfs-progs; mkfs.btrfs DEVICE; mount DEVICE DIRECTORY")
	}
	if os.Geteuid() != 0 {
		return writ.Errorf(writ.CodeDriverMissing, "only root can limit and remove btrfs subvolumes").
			WithHint("run the node as root")
	}
	return nil
}

const (
	readOnly = true
	writable = false
)

// subvolumeInode is the inode of the top directory of every subvolume.
const subvolumeInode = 256

// isSubvolume reports whether a subvolume exists at path. It returns RESOURCE_CONFLICT if another object exists there.
func isSubvolume(path string) (bool, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); !ok || !info.IsDir() || stat.Ino != subvolumeInode {
		return false, writ.Errorf(writ.CodeResourceConflict, "%s exists and is not a subvolume", path).
			WithHint("move it elsewhere")
	}
	return true, nil
}

func createSubvolume(path string) error {
	if err := btrfs.SubvolCreate(path); err != nil {
		return err
	}
	return os.Chmod(path, 0o755)
}

func subvolumeID(path string) (uint64, error) { return btrfs.SubvolID(path) }

// exchange swaps two subvolumes atomically.
func exchange(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}

// The extended attributes of a tree: its size in bytes and its project. Only root can access trusted attributes, so
// containers cannot change them.
const (
	sizeAttribute    = "trusted.writ.size"
	projectAttribute = "trusted.writ.project"
)

// errNoSize is the error of boundOf for a subvolume whose creation is unfinished.
var errNoSize = errors.New("the subvolume has no size")

func boundOf(path string) (bound sal.Bound, err error) {
	size, err := attribute(path, sizeAttribute)
	if errors.Is(err, unix.ENODATA) {
		return bound, errNoSize
	}
	if err == nil {
		bound.Bytes, err = strconv.ParseInt(size, 10, 64)
	}
	if err != nil {
		return bound, err
	}
	project, err := attribute(path, projectAttribute)
	if errors.Is(err, unix.ENODATA) {
		err = nil
	}
	bound.Project = writ.ProjectID(project)
	return bound, err
}

func attribute(path, name string) (string, error) {
	text := make([]byte, 256)
	n, err := unix.Lgetxattr(path, name, text)
	if err != nil {
		return "", &fs.PathError{Op: "getxattr", Path: path, Err: err}
	}
	return string(text[:n]), nil
}

func setBound(path string, bound sal.Bound) error {
	err := unix.Lsetxattr(path, projectAttribute, []byte(bound.Project), 0)
	if err == nil {
		err = unix.Lsetxattr(path, sizeAttribute, strconv.AppendInt(nil, bound.Bytes, 10), 0)
	}
	if err != nil {
		return &fs.PathError{Op: "setxattr", Path: path, Err: err}
	}
	return nil
}

// onDir opens a directory and calls f with its file descriptor.
func onDir(dir string, f func(fd uintptr) error) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f(d.Fd()), d.Close())
}

// sysfs reads a value that the kernel reports for the file system of a directory.
func sysfs(dir string, path ...string) (string, error) {
	id, err := fileSystemID(dir)
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(filepath.Join(append([]string{"/sys/fs/btrfs", id}, path...)...))
	if err != nil {
		return "", err
	}
	for len(text) > 0 && text[len(text)-1] == '\n' {
		text = text[:len(text)-1]
	}
	return string(text), nil
}

// kernelRelease returns the version of the running kernel, numbers only: "6.1.0".
func kernelRelease() string {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return ""
	}
	release := unix.ByteSliceToString(name.Release[:])
	if end := strings.IndexFunc(release, func(r rune) bool { return r != '.' && (r < '0' || r > '9') }); end >= 0 {
		release = release[:end]
	}
	return release
}

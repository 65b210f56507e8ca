package sal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// handedMode is that of a volume's directory whose disk somebody has: the group of a user goes through it, and sees nothing.
const handedMode fs.FileMode = 0o710

// HandDisk gives the disk in a directory of a volume to a user: the file is theirs, or theirs to read, and the directory stays ours, so
// that they can put nothing in the file's place.
func HandDisk(dir string, user uint32, readOnly bool) error {
	f, err := os.OpenFile(filepath.Join(dir, DiskName), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	owner, mode := user, fs.FileMode(0o600)
	if readOnly {
		owner, mode = 0, 0o640
	}
	if err := hand(f, owner, user, mode); err != nil {
		return err
	}
	return HandPath(dir, user)
}

// HandPath lets a user through a directory of ours, and nobody else.
func HandPath(dir string, user uint32) error {
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return hand(f, 0, user, handedMode)
}

// TakePathBack undoes HandPath for a directory of a process that runs as we do again: it is closed to all others. step is told before anything
// changes.
func TakePathBack(dir string, step func(string)) error {
	info, err := os.Lstat(dir)
	if err != nil || info.Mode().Perm() == 0o700 {
		return err
	}
	step("take the directory back")
	if err := os.Lchown(dir, os.Getuid(), os.Getgid()); err != nil {
		return err
	}
	return os.Chmod(dir, 0o700)
}

// HandFile gives a file to a user. One with another name besides may be somebody else's, and is refused.
func HandFile(path string, owner, group uint32, mode fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return hand(f, owner, group, mode)
}

func hand(f *os.File, owner, group uint32, mode fs.FileMode) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() && (!info.Mode().IsRegular() || s.Nlink != 1) {
		return fmt.Errorf("%s is no file that has one name", f.Name())
	}
	if s.Uid != owner || s.Gid != group {
		if err := f.Chown(int(owner), int(group)); err != nil {
			return err
		}
	}
	if info.Mode().Perm() == mode {
		return nil
	}
	return f.Chmod(mode)
}

// TakeDiskBack undoes HandDisk in a directory, also in a copy of one. Any other directory is left as it is.
func TakeDiskBack(dir string) error {
	top, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, DiskName)
	disk, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	d, okD := top.Sys().(*syscall.Stat_t)
	f, okF := disk.Sys().(*syscall.Stat_t)
	back := okF && f.Uid == 0 && f.Gid == 0 // by an attempt that was interrupted
	if !okD || !okF || d.Uid != 0 || d.Gid == 0 || d.Gid != f.Gid && !back || top.Mode().Perm() != handedMode || !disk.Mode().IsRegular() {
		return nil
	}
	if err := HandFile(path, 0, 0, 0o600); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	return os.Lchown(dir, 0, 0)
}

// HandTree gives a directory and all that is in it to a user. Nobody may work with it meanwhile. A file with another name besides may be
// somebody else's, and is refused; links are given as such.
func HandTree(dir string, user uint32) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		s, ok := info.Sys().(*syscall.Stat_t)
		if !ok || info.Mode().IsRegular() && s.Nlink != 1 {
			return fmt.Errorf("%s is no file that has one name", filepath.Join(dir, name))
		}
		if name == "." && info.Mode().Perm() != 0o700 {
			if err := root.Chmod(name, 0o700); err != nil {
				return err
			}
		}
		if s.Uid == user && s.Gid == user {
			return nil
		}
		return root.Lchown(name, int(user), int(user))
	})
}

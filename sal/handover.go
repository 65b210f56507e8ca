package sal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"writ"
)

// handedMode is that of a volume's directory whose disk somebody has: the group of a user goes through it, and sees nothing.
const handedMode fs.FileMode = 0o710

// HandDisk gives the disk in a directory of a volume to a user: the file is theirs, or theirs to read, and the directory stays ours, so
// that they can put nothing in the file's place. step is told before anything changes.
//
// The file is a user's only as long as the directory says so, by its group and its mode: it gets that first, and loses it last. So
// ReclaimDisk knows what it has to take, wherever one of both was interrupted.
func HandDisk(dir string, user uint32, readOnly bool, step func(string)) error {
	f, err := openFile(filepath.Join(dir, DiskName))
	if err != nil {
		return err
	}
	defer f.Close()
	top, err := openDir(dir)
	if err != nil {
		return err
	}
	defer top.Close()
	owner, mode := user, fs.FileMode(0o600)
	if readOnly {
		owner, mode = 0, 0o640
	}
	if err := mayBe(f, owner, user); err != nil {
		return err
	}
	info, s, err := stat(top)
	if err == nil && (s.Uid != 0 || s.Gid != user || info.Mode().Perm() != handedMode) { // whoever had it has it no more, before that changes
		err = give(f, 0, 0, 0o600, step)
	}
	if err != nil {
		return err
	}
	if err := hand(top, 0, user, handedMode, step); err != nil {
		return err
	}
	return hand(f, owner, user, mode, step)
}

// HandPath lets a user through a directory of ours, and nobody else.
func HandPath(dir string, user uint32) error {
	f, err := openDir(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return hand(f, 0, user, handedMode, quietly)
}

// ReclaimPath undoes HandPath for a directory of a process that runs as we do again, and takes one from a user with all that is below it:
// it is ours and closed to all others. step is told before anything changes.
func ReclaimPath(dir string, step func(string)) error {
	f, err := openDir(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return give(f, uint32(os.Getuid()), uint32(os.Getgid()), 0o700, step)
}

// HandFile gives a file to a user. One with another name besides may be somebody else's, and is refused, unless it is that user's already.
func HandFile(path string, owner, group uint32, mode fs.FileMode) error {
	f, err := openFile(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := mayBe(f, owner, group); err != nil {
		return err
	}
	return hand(f, owner, group, mode, quietly)
}

func openFile(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
}

func openDir(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_DIRECTORY, 0)
}

func quietly(string) {}

// stat is what is known of an open file.
func stat(f *os.File) (fs.FileInfo, syscall.Stat_t, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, syscall.Stat_t{}, err
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil, syscall.Stat_t{}, fmt.Errorf("nothing is known of %s", f.Name())
	}
	return info, *s, nil
}

// mayBe refuses to give somebody what is no file, or may be somebody else's under another name. What is theirs already has the names that
// they gave it.
func mayBe(f *os.File, owner, group uint32) error {
	info, s, err := stat(f)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return writ.Errorf(writ.CodeResourceConflict, "%s is no file", f.Name()).WithHint("another program put it there; look at it on the node, and remove it")
	case s.Nlink == 1 || s.Uid == owner && s.Gid == group:
		return nil
	}
	return twoNames(f.Name(), uint64(s.Dev))
}

// twoNames is the error about a file that may be somebody else's as well.
func twoNames(path string, device uint64) error {
	top := path
	for dir := filepath.Dir(top); dir != top; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			break
		}
		if s, ok := info.Sys().(*syscall.Stat_t); !ok || uint64(s.Dev) != device {
			break
		}
		top = dir
	}
	return writ.Errorf(writ.CodeResourceConflict, "the file %s has a second name, under which it may belong to another program", path).
		WithHint("`find %s -xdev -samefile %s` on the node shows its names; remove the others", top, path)
}

// hand gives an open file or directory to somebody, its mode first: what the group before might do, the next one must never.
func hand(f *os.File, owner, group uint32, mode fs.FileMode, step func(string)) error {
	info, s, err := stat(f)
	if err != nil {
		return err
	}
	if info.Mode().Perm() != mode {
		step("set the mode of what is handed over")
		if err := f.Chmod(mode); err != nil {
			return err
		}
	}
	if s.Uid == owner && s.Gid == group {
		return nil
	}
	step("hand it over")
	return f.Chown(int(owner), int(group))
}

// give is hand the other way round: somebody loses something, and only then the mode may let others have it.
func give(f *os.File, owner, group uint32, mode fs.FileMode, step func(string)) error {
	info, s, err := stat(f)
	if err != nil {
		return err
	}
	if s.Uid != owner || s.Gid != group {
		step("take it back")
		if err := f.Chown(int(owner), int(group)); err != nil {
			return err
		}
	}
	if info.Mode().Perm() == mode {
		return nil
	}
	step("set the mode of what was taken back")
	return f.Chmod(mode)
}

// ReclaimDisk undoes HandDisk in a directory, also in a copy of one, and what an attempt at either left that was interrupted. The user may
// have given the file other names: they lead to a file of ours then. Any other directory is left as it is. step is told before anything
// changes.
func ReclaimDisk(dir string, step func(string)) error {
	path := filepath.Join(dir, DiskName)
	top, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	disk, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || !handed(top, disk) {
		return err
	}
	f, err := openFile(path)
	if err != nil {
		return err
	}
	defer f.Close()
	d, err := openDir(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if now, err := f.Stat(); err != nil || !os.SameFile(now, disk) {
		return errors.Join(err, fmt.Errorf("another process replaces %s", path))
	}
	if err := give(f, 0, 0, 0o600, step); err != nil {
		return err
	}
	return give(d, 0, 0, 0o755, step)
}

// handed reports whether a disk is somebody's, or was to be: the directory says so. The disk is ours as long as it does not belong to the
// group that may go there. A directory of nobody's group is one whose handing over or taking back was interrupted next to the group, and then
// its disk is nobody else's to read; any other is a container's own.
func handed(dir, disk fs.FileInfo) bool {
	d, okD := dir.Sys().(*syscall.Stat_t)
	f, okF := disk.Sys().(*syscall.Stat_t)
	if !okD || !okF || d.Uid != 0 || dir.Mode().Perm() != handedMode || !disk.Mode().IsRegular() {
		return false
	}
	ours := f.Uid == 0 && f.Gid == 0
	if d.Gid == 0 {
		return ours && disk.Mode().Perm() == 0o600
	}
	return ours || f.Gid == d.Gid
}

// HandTree gives a directory and all that is in it to a user. Nobody may work with it meanwhile. A file with another name besides may be
// somebody else's, and is refused unless it is that user's already; links are given as such.
func HandTree(dir string, user uint32) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	walk := &Walk{Root: root, Enter: func(name string, info fs.FileInfo) error {
		s, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return fmt.Errorf("nothing is known of %s", filepath.Join(dir, name))
		}
		if name == "." && info.Mode().Perm() != 0o700 {
			if err := root.Chmod(name, 0o700); err != nil {
				return err
			}
		}
		if s.Uid == user && s.Gid == user {
			return nil
		}
		if info.Mode().IsRegular() && s.Nlink != 1 {
			return twoNames(filepath.Join(dir, name), uint64(s.Dev))
		}
		return root.Lchown(name, int(user), int(user))
	}}
	return walk.Run(context.Background())
}

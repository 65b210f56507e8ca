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

// handedMode is the mode of a volume's directory while a user has access to the disk in it. The user's group may
// traverse the directory, but not list it.
const handedMode fs.FileMode = 0o710

// HandDisk gives a user access to the disk in the directory of a volume. The user then owns the disk, or may only read
// it if readOnly is set. Root still owns the directory, so the user cannot replace the file. step is called before each
// change. HandDisk returns the same errors as HandFile.
//
// The group and mode of the directory mark the disk as handed over. HandDisk sets them first, and ReclaimDisk resets
// them last. So ReclaimDisk can clean up after an interruption of either function at any point.
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
	if err := checkExclusive(f, owner, user); err != nil {
		return err
	}
	info, s, err := stat(top)
	// Revoke the previous user first.
	if err == nil && (s.Uid != 0 || s.Gid != user || info.Mode().Perm() != handedMode) {
		err = takeBack(f, 0, 0, 0o600, step)
	}
	if err != nil {
		return err
	}
	if err := handOver(top, 0, user, handedMode, step); err != nil {
		return err
	}
	return handOver(f, owner, user, mode, step)
}

// HandPath allows one user to traverse a directory, which root then owns. It denies access to all other users.
func HandPath(dir string, user uint32) error {
	f, err := openDir(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return handOver(f, 0, user, handedMode, noStep)
}

// ReclaimPath undoes HandPath: it gives a directory back to the user of this process, with mode 0700. Other users then
// cannot reach anything below the directory. step is called before each change.
func ReclaimPath(dir string, step func(string)) error {
	f, err := openDir(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return takeBack(f, uint32(os.Getuid()), uint32(os.Getgid()), 0o700, step)
}

// HandFile sets the owner, group and mode of a file. It returns RESOURCE_CONFLICT if the file is not regular, or if it
// has a second hard link, which may belong to another user. A second hard link is accepted if the file already has this
// owner and group.
func HandFile(path string, owner, group uint32, mode fs.FileMode) error {
	f, err := openFile(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := checkExclusive(f, owner, group); err != nil {
		return err
	}
	return handOver(f, owner, group, mode, noStep)
}

//failpoint:none it opens for reading
func openFile(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
}

//failpoint:none it opens for reading
func openDir(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_DIRECTORY, 0)
}

func noStep(string) {}

// stat returns the metadata of an open file.
func stat(f *os.File) (fs.FileInfo, syscall.Stat_t, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, syscall.Stat_t{}, err
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil, syscall.Stat_t{}, fmt.Errorf("metadata of %s is missing", f.Name())
	}
	return info, *s, nil
}

// checkExclusive returns an error if f is not a regular file, or if it may belong to another user under a second name.
// If the file already has this owner and group, it may have any number of hard links, because the user created them.
func checkExclusive(f *os.File, owner, group uint32) error {
	info, s, err := stat(f)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return writ.Errorf(writ.CodeResourceConflict, "%s is not a regular file", f.Name()).
			WithHint("another program created it; inspect it on the node and remove it")
	case s.Nlink == 1 || s.Uid == owner && s.Gid == group:
		return nil
	}
	return secondNameError(f.Name(), uint64(s.Dev))
}

// secondNameError returns the error for a file with a second hard link.
func secondNameError(path string, device uint64) error {
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
	return writ.Errorf(writ.CodeResourceConflict,
		"the file %s has a second name, under which it may belong to another program", path).
		WithHint("`find %s -xdev -samefile %s` on the node shows its names; remove the others", top, path)
}

// handOver gives an open file or directory to an owner and group. It sets the mode first, because the new group must
// never have the rights of the previous group.
func handOver(f *os.File, owner, group uint32, mode fs.FileMode, step func(string)) error {
	info, s, err := stat(f)
	if err != nil {
		return err
	}
	if info.Mode().Perm() != mode {
		step("set the mode for the user")
		if err := f.Chmod(mode); err != nil {
			return err
		}
	}
	if s.Uid == owner && s.Gid == group {
		return nil
	}
	step("set the owner")
	return f.Chown(int(owner), int(group))
}

// takeBack is the reverse of handOver: it changes the owner first, and only then the mode.
func takeBack(f *os.File, owner, group uint32, mode fs.FileMode, step func(string)) error {
	info, s, err := stat(f)
	if err != nil {
		return err
	}
	if s.Uid != owner || s.Gid != group {
		step("reset the owner")
		if err := f.Chown(int(owner), int(group)); err != nil {
			return err
		}
	}
	if info.Mode().Perm() == mode {
		return nil
	}
	step("reset the mode")
	return f.Chmod(mode)
}

// ReclaimDisk undoes HandDisk in a directory or in a copy of it, even if HandDisk or ReclaimDisk was interrupted. Hard
// links that the user created then refer to a file that root owns. ReclaimDisk does not change a directory that was not
// handed over. step is called before each change.
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
	if err != nil || !isHandedOver(top, disk) {
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
		return errors.Join(err, fmt.Errorf("another process replaced %s", path))
	}
	if err := takeBack(f, 0, 0, 0o600, step); err != nil {
		return err
	}
	return takeBack(d, 0, 0, 0o755, step)
}

// isHandedOver reports whether HandDisk has finished or at least begun for a disk. The mode and group of the directory
// show this. Until the disk gets the group of the directory, root owns the disk. If the directory has handedMode and
// the group of root, HandDisk or ReclaimDisk was interrupted between its changes of mode and group. Only root then has
// access to the disk. In any other state, the directory was not handed over: a container uses the volume.
func isHandedOver(dir, disk fs.FileInfo) bool {
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

// HandTree gives a directory and its content to a user, and sets the mode of the directory to 0700. No process may use
// the tree during the call. HandTree returns RESOURCE_CONFLICT for a file with a second hard link, which may belong to
// another user, unless the user owns the file already. It does not follow symbolic links.
func HandTree(dir string, user uint32) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	walk := &Walk{Root: root, Enter: func(name string, info fs.FileInfo) error {
		s, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return fmt.Errorf("metadata of %s is missing", filepath.Join(dir, name))
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
			return secondNameError(filepath.Join(dir, name), uint64(s.Dev))
		}
		return root.Lchown(name, int(user), int(user))
	}}
	return walk.Run(context.Background())
}

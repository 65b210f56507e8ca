package boot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"

	"writ/internal/timerslack"
)

const (
	newRoot    = "/.root"
	movedVar   = "WRIT_ROOT_MOVED"
	movedValue = "1"
)

// moveRoot copies the files of the image to a new tmpfs and restarts the first process from there. The kernel unpacked
// them to its initial root, where pivot_root fails, so runc could not give containers their own root. It returns nil in
// the restarted process.
func moveRoot() error {
	if os.Getenv(movedVar) == movedValue {
		return os.Unsetenv(movedVar)
	}
	if err := os.Mkdir(newRoot, 0o755); err != nil {
		return fmt.Errorf("make a root directory: %w", err)
	}
	if err := unix.Mount("tmpfs", newRoot, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=90%"); err != nil {
		return fmt.Errorf("mount a root directory: %w", err)
	}
	files, err := os.ReadDir("/")
	if err != nil {
		return fmt.Errorf("list the files of the image: %w", err)
	}
	var copied []string
	for _, f := range files {
		from := filepath.Join("/", f.Name())
		if from == newRoot || f.Name() == "dev" { // the kernel created device nodes there, which mountAll covers
			continue
		}
		if err := copyTree(from, filepath.Join(newRoot, f.Name())); err != nil {
			return errors.Join(err, unix.Unmount(newRoot, 0))
		}
		copied = append(copied, from)
	}
	if err := os.Mkdir(filepath.Join(newRoot, "dev"), 0o755); err != nil {
		return errors.Join(err, unix.Unmount(newRoot, 0))
	}
	for _, from := range copied {
		_ = os.RemoveAll(from) // the originals use memory and become unreachable
	}
	if err := os.Chdir(newRoot); err != nil {
		return fmt.Errorf("enter the root directory: %w", err)
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move the root directory: %w", err)
	}
	if err := errors.Join(unix.Chroot("."), os.Chdir("/")); err != nil {
		return fmt.Errorf("enter the moved root directory: %w", err)
	}
	runtime.LockOSThread() // the program keeps the delay of this thread
	if err := timerslack.Set(timerslack.Daemon); err != nil {
		return err
	}
	err = unix.Exec("/init", os.Args, append(os.Environ(), movedVar+"="+movedValue))
	return fmt.Errorf("restart from the moved root directory: %w", err)
}

// copyTree copies a file or a directory tree.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		target := to + path[len(from):]
		switch mode := info.Mode(); {
		case mode.IsDir():
			err = os.Mkdir(target, mode.Perm())
		case mode&fs.ModeSymlink != 0:
			var link string
			if link, err = os.Readlink(path); err == nil {
				err = os.Symlink(link, target)
			}
		case mode.IsRegular():
			err = copyFile(path, target, mode.Perm())
		}
		if err != nil {
			return fmt.Errorf("copy %s of the image: %w", path, err)
		}
		return nil
	})
}

func copyFile(from, to string, perm fs.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, perm)
	if err != nil {
		return err
	}
	_, err = out.ReadFrom(in)
	return errors.Join(err, out.Close())
}

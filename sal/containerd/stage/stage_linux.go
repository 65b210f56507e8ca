package stage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	mounting "github.com/containerd/containerd/v2/core/mount"
	"golang.org/x/sys/unix"

	"writ/internal/userns"
	"writ/sal"
	"writ/sal/containerd/device"
	"writ/sal/needs"
)

// Fill fills an empty stage.
func (s Stage) Fill(c Content) error {
	s.Step("make the stage")
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return err
	}
	file := s.User()
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return err
	}
	if err := unix.Mount(fmt.Sprintf("/proc/self/fd/%d", c.User.Fd()), file, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount the user namespace at %s: %w", file, err)
	}
	for i, dir := range c.Volumes {
		s.Step("show a volume")
		if err := mountMapped(c.User, dir, s.Volume(i)); err != nil {
			return err
		}
	}
	if c.Files != "" {
		s.Step("show the files")
		if err := mountMapped(c.User, c.Files, s.Files()); err != nil {
			return err
		}
	}
	return (&scene{dir: s.Dir, user: c.User, ids: c.IDs}).root(c.Layer)
}

// MakeDevices makes device nodes in memory, before Fill. They belong to the user and group `owner`, because the user
// namespace of a container does not map the owners of the host's nodes. Other users of the host cannot enter the
// directory.
func (s Stage) MakeDevices(devices []device.Device, owner uint32) error {
	if len(devices) == 0 {
		return nil
	}
	s.Step("make the device nodes")
	dir := s.devices()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := unix.Mount("writ", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "mode=0700,size=64k"); err != nil {
		return fmt.Errorf("mount the device nodes at %s: %w", dir, err)
	}
	for i, d := range devices {
		kind, path := uint32(unix.S_IFCHR), s.Device(i)
		if d.Block {
			kind = unix.S_IFBLK
		}
		err := unix.Mknod(path, kind, int(unix.Mkdev(d.Major, d.Minor)))
		if err == nil {
			err = os.Lchown(path, int(owner), int(owner))
		}
		if err == nil {
			err = os.Chmod(path, d.Mode())
		}
		if err != nil {
			return fmt.Errorf("make the node of the device %s: %w", d.Name, err)
		}
	}
	return nil
}

// Lstat inspects a path below a root directory, such as the root of a process, without following any symbolic link.
func Lstat(root, path string) (fs.FileInfo, error) {
	dir, err := os.Open(root)
	if err != nil {
		return nil, err
	}
	names := strings.Split(strings.Trim(path, "/"), "/")
	for i, name := range names {
		flags := unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC
		if i < len(names)-1 {
			flags |= unix.O_DIRECTORY
		}
		fd, err := unix.Openat(int(dir.Fd()), name, flags, 0)
		dir.Close()
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: path, Err: err}
		}
		dir = os.NewFile(uintptr(fd), name)
	}
	defer dir.Close()
	return dir.Stat()
}

// mountMapped mounts a directory with mapped IDs at a new path.
func mountMapped(user *os.File, from, to string) error {
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	return userns.Show(user, from, to)
}

// scene is a stage that is being filled.
type scene struct {
	dir  string
	user *os.File
	ids  uint32
}

// root mounts a layer with mapped IDs as the container's root.
func (s *scene) root(layer []mounting.Mount) error {
	root, plain := filepath.Join(s.dir, "root"), filepath.Join(s.dir, "plain")
	switch {
	case len(layer) == 1 && layer[0].Type == "overlay":
		if err := os.Mkdir(root, 0o700); err != nil {
			return err
		}
		return s.overlay(layer[0].Options)
	case len(layer) == 1 && layer[0].Type == "bind":
		return mountMapped(s.user, layer[0].Source, root)
	}
	if err := os.Mkdir(plain, 0o700); err != nil {
		return err
	}
	if err := mounting.All(layer, plain); err != nil {
		return err
	}
	return mountMapped(s.user, plain, root)
}

// overlay mounts stacked layers. The files of an image's layers keep their owners on disk and are mapped. In the
// writable layer, files belong to the host numbers of the container's users, because the kernel does not map a writable
// layer.
func (s *scene) overlay(options []string) error {
	options = append([]string(nil), options...)
	for i, option := range options {
		name, value, _ := strings.Cut(option, "=")
		switch name {
		case "upperdir":
			if err := s.chownRoot(value); err != nil {
				return err
			}
		case "lowerdir":
			var below []string
			for n, dir := range strings.Split(value, ":") {
				at := fmt.Sprintf("l%d", n)
				if err := mountMapped(s.user, dir, filepath.Join(s.dir, at)); err != nil {
					return err
				}
				below = append(below, at)
			}
			options[i] = "lowerdir=" + strings.Join(below, ":")
		}
	}
	done := make(chan error, 1)
	go func() {
		// A separate thread changes its directory to the stage. The layers then have short relative paths, which
		// matters because the kernel accepts at most one page of mount options. The thread ends with this goroutine.
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_FS)
		if err == nil {
			err = unix.Chdir(s.dir)
		}
		if err == nil {
			err = unix.Mount("overlay", "root", "overlay", 0, strings.Join(options, ","))
		}
		done <- err
	}()
	if err := <-done; err != nil {
		return fmt.Errorf("mount the stacked layers: %w", err)
	}
	return nil
}

// chownRoot changes the owner of a writable layer's root directory to the container's user with the same number.
func (s *scene) chownRoot(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if has, ok := info.Sys().(*syscall.Stat_t); ok && has.Uid < userns.Many {
		return os.Lchown(dir, int(s.ids+has.Uid), int(s.ids+has.Gid%userns.Many))
	}
	return nil
}

// Clear removes the stage, if it exists. It unmounts first and never deletes data below a mount.
func (s Stage) Clear() error {
	entries, err := os.ReadDir(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return sal.HostError("list the stage of a container", err)
	}
	s.Step("clear the stage")
	for _, e := range entries {
		path := filepath.Join(s.Dir, e.Name())
		err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if err != nil && !errors.Is(err, unix.EINVAL) { // not a mount point
			return sal.HostError("unmount "+path, err)
		}
		if err := os.Remove(path); err != nil { // fails if it is not empty
			return sal.HostError("clear the stage of a container", err)
		}
	}
	if err := os.Remove(s.Dir); err != nil {
		return sal.HostError("clear the stage of a container", err)
	}
	return nil
}

// Supported returns the reason why the kernel cannot stack layers with mapped IDs, or nil if it can.
func Supported() error {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return err
	}
	version, _, _ := strings.Cut(unix.ByteSliceToString(name.Release[:]), "-")
	if !needs.AtLeast(version, "5.19") {
		return fmt.Errorf("this is Linux %s, whose overlayfs does not support mapped layers; 5.19 or newer does",
			version)
	}
	return nil
}

package testenv

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// Disk is a small file system of its own: ext4 in a file, on a loop device.
type Disk struct {
	Dir string // where it is mounted

	t     testing.TB
	image string
}

// immutable is FS_IMMUTABLE_FL of linux/fs.h.
const immutable = 0x10

// ballast is the file that fills a disk.
const ballast = ".ballast"

// NewDisk mounts a new file system of so many MiB at dir, which it makes, until the test ends. It skips the test where that is impossible:
// only root may mount, and not in every container.
func NewDisk(t testing.TB, dir string, mib int64) *Disk {
	t.Helper()
	mkfs := Need(t, "mkfs.ext4")
	d := &Disk{Dir: dir, t: t, image: filepath.Join(t.TempDir(), "image")}
	if err := errors.Join(os.WriteFile(d.image, nil, 0o600), os.Truncate(d.image, mib<<20), os.MkdirAll(dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	// No blocks are kept for root: the test may be root, and full shall mean full.
	if said, err := exec.Command(mkfs, "-q", "-m", "0", d.image).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v\n%s", err, said)
	}
	if said, err := d.mount(); err != nil {
		text := "no file system can be mounted here: " + said
		note(t, text)
		t.Skip(text)
	}
	t.Cleanup(func() { d.unmount() })
	if err := errors.Join(os.Remove(filepath.Join(dir, "lost+found")), os.Chmod(dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *Disk) mount(options ...string) (string, error) {
	said, err := exec.Command("mount", append(options, "-o", "loop", d.image, d.Dir)...).CombinedOutput()
	return string(said), err
}

func (d *Disk) unmount() {
	d.t.Helper()
	if said, err := exec.Command("umount", d.Dir).CombinedOutput(); err != nil {
		d.t.Fatalf("umount: %v\n%s", err, said)
	}
}

// Fill leaves not one byte of room.
func (d *Disk) Fill() {
	d.t.Helper()
	f, err := os.OpenFile(filepath.Join(d.Dir, ballast), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	for part := int64(16 << 20); part >= 512; {
		info, err := f.Stat()
		if err != nil {
			d.t.Fatal(err)
		}
		switch err := unix.Fallocate(int(f.Fd()), 0, info.Size(), part); err {
		case nil:
		case unix.ENOSPC:
			part /= 2
		default:
			d.t.Fatalf("fill %s: %v", d.Dir, err)
		}
	}
}

// Free gives the room back, if it was taken.
func (d *Disk) Free() {
	d.t.Helper()
	if err := os.Remove(filepath.Join(d.Dir, ballast)); err != nil && !errors.Is(err, os.ErrNotExist) {
		d.t.Fatal(err)
	}
}

// ReadOnly lets nothing be written any more, or lets it again. While somebody has a file open to write, the kernel refuses.
func (d *Disk) ReadOnly(on bool) {
	d.t.Helper()
	how := map[bool]string{true: "remount,ro", false: "remount,rw"}[on]
	if said, err := exec.Command("mount", "-o", how, d.Dir).CombinedOutput(); err != nil {
		d.t.Fatalf("mount -o %s: %v\n%s", how, err, said)
	}
}

// Freeze takes the right to write from files that may be open: their next write fails with EPERM, as on a disk that the kernel has turned
// read-only because of an error, and unlike there it can be given back.
func (d *Disk) Freeze(on bool, patterns ...string) {
	d.t.Helper()
	for _, pattern := range patterns {
		paths, err := filepath.Glob(filepath.Join(d.Dir, pattern))
		if err != nil || len(paths) == 0 {
			d.t.Fatalf("%s is not there, %v", pattern, err)
		}
		for _, path := range paths {
			f, err := os.Open(path)
			if err != nil {
				d.t.Fatal(err)
			}
			flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
			if err == nil {
				flags &^= immutable
				if on {
					flags |= immutable
				}
				err = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags)
			}
			if err := errors.Join(err, f.Close()); err != nil {
				d.t.Fatalf("change the flags of %s: %v", path, err)
			}
		}
	}
}

// Room returns how many bytes are free.
func (d *Disk) Room() string {
	var s unix.Statfs_t
	if err := unix.Statfs(d.Dir, &s); err != nil {
		d.t.Fatal(err)
	}
	return strconv.FormatInt(int64(s.Bfree)*s.Bsize, 10)
}

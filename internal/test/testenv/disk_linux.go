package testenv

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Disk is a small file system in a file on a loop device.
type Disk struct {
	Dir string // mount point

	t     testing.TB
	image string // file with the file system
	gone  bool
}

// ballast is the file that fills a disk.
const ballast = ".ballast"

// NewDisk creates dir and mounts a new ext4 file system of mib MiB there until the test ends. It skips the test if that
// is impossible: only root may mount, and not in every container.
func NewDisk(t testing.TB, dir string, mib int64) *Disk {
	t.Helper()
	// No blocks are reserved for root: the test may run as root, and must be able to fill the disk.
	d := mount(t, dir, filepath.Join(Home(t, "ext4"), "image"), mib, Need(t, "mkfs.ext4"), "-q", "-m", "0")
	if err := os.Remove(filepath.Join(dir, "lost+found")); err != nil {
		t.Fatal(err)
	}
	return d
}

// NewBtrfs works like NewDisk, with btrfs, which needs at least 110 MiB. Its data is in memory if possible, so that
// tests do not wait for a busy disk at each commit.
func NewBtrfs(t testing.TB, dir string, mib int64) *Disk {
	t.Helper()
	mkfs := Need(t, "mkfs.btrfs")
	return mount(t, dir, filepath.Join(HomeInMemory(t, "btrfs"), "image"), mib, mkfs, "-q")
}

// mount creates a file system and mounts it. mkfs is the command line without the file.
func mount(t testing.TB, dir, image string, mib int64, mkfs ...string) *Disk {
	t.Helper()
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, mib<<20), os.MkdirAll(dir, 0o700)); err !=
		nil {
		t.Fatal(err)
	}
	if said, err := exec.Command(mkfs[0], append(mkfs[1:], image)...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", mkfs[0], err, said)
	}
	if said, err := exec.Command("mount", "-o", "loop,noatime", image, dir).CombinedOutput(); err != nil {
		text := "no file system can be mounted here: " + string(said)
		note(t, text)
		t.Skip(text)
	}
	d := &Disk{Dir: dir, t: t, image: image}
	t.Cleanup(d.unmount)
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return d
}

// busyGuard limits the wait for a disk in use by a process that was just killed. The kernel releases the disk shortly
// afterwards.
const busyGuard = 10 * time.Second

func (d *Disk) unmount() {
	d.t.Helper()
	if d.gone {
		return
	}
	for late := time.Now().Add(busyGuard); ; time.Sleep(20 * time.Millisecond) {
		err := unix.Unmount(d.Dir, 0)
		if err == nil {
			return
		}
		if !errors.Is(err, unix.EBUSY) || time.Now().After(late) {
			d.t.Fatalf("unmount %s: %v", d.Dir, err)
		}
	}
}

// Cut removes the disk like a power failure, without flushing the file system. It returns a file with the content of
// the disk at that moment, which includes everything that was synced before.
func (d *Disk) Cut() (image string) {
	d.t.Helper()
	from, err := os.Open(d.image)
	if err != nil {
		d.t.Fatal(err)
	}
	defer from.Close()
	image = filepath.Join(Home(d.t, "cut"), "image")
	to, err := os.Create(image)
	if err != nil {
		d.t.Fatal(err)
	}
	_, err = io.Copy(to, from)
	if err = errors.Join(err, to.Close()); err != nil {
		d.t.Fatal(err)
	}
	d.unmount()
	d.gone = true
	return image
}

// Attach attaches a file as a disk until the test ends, and returns its device. It skips the test like NewDisk.
func Attach(t testing.TB, image string) (device string) {
	t.Helper()
	said, err := exec.Command("losetup", "--find", "--show", image).CombinedOutput()
	if err != nil {
		text := "no file can be attached as a disk here: " + string(said)
		note(t, text)
		t.Skip(text)
	}
	device = strings.TrimSpace(string(said))
	t.Cleanup(func() {
		if said, err := exec.Command("losetup", "--detach", device).CombinedOutput(); err != nil {
			t.Errorf("losetup: %v\n%s", err, said)
		}
	})
	return device
}

// Fill fills the disk completely.
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

// Free releases the space taken by Fill.
func (d *Disk) Free() {
	d.t.Helper()
	if err := os.Remove(filepath.Join(d.Dir, ballast)); err != nil && !errors.Is(err, os.ErrNotExist) {
		d.t.Fatal(err)
	}
}

// ReadOnly remounts the disk read-only, or writable again. The kernel rejects that while a file is open for writing.
func (d *Disk) ReadOnly(on bool) {
	d.t.Helper()
	how := map[bool]string{true: "remount,ro", false: "remount,rw"}[on]
	if said, err := exec.Command("mount", "-o", how, d.Dir).CombinedOutput(); err != nil {
		d.t.Fatalf("mount -o %s: %v\n%s", how, err, said)
	}
}

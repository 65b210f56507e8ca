package datadisk

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"writ"
	"writ/efi/progress"
)

// mkfsAt is the program of the image that makes the data file system.
const mkfsAt = "/usr/sbin/mkfs.btrfs"

// mkfsLimit limits the run time of mkfs.btrfs, which writes a few MiB and discards no blocks.
var mkfsLimit = progress.Limit{Most: 5 * time.Minute, Then: "the machine is held"}

// findEmpty returns the disk with a serial number. It returns an error if the disk is not empty. block is /sys/block.
func findEmpty(block fs.FS, dev, serial string) (dataDisk, error) {
	name, err := withSerial(block, serial)
	if err != nil {
		return dataDisk{}, err
	}
	d := dataDisk{device: filepath.Join(dev, name), empty: true}
	if readOnly, _ := fs.ReadFile(block, path.Join(name, "ro")); strings.TrimSpace(string(readOnly)) == "1" {
		return dataDisk{}, writ.Errorf(writ.CodeUsage, "%s, the disk with the serial number %s, is read-only", d.device,
			serial).
			WithHint("see why it is read-only, or name another disk")
	}
	disk, err := os.Open(d.device)
	if err != nil {
		return dataDisk{}, fmt.Errorf("open the disk with the serial number %s: %w", serial, err)
	}
	defer disk.Close()
	size, err := disk.Seek(0, io.SeekEnd)
	if err != nil {
		return dataDisk{}, fmt.Errorf("read the size of %s: %w", d.device, err)
	}
	what := ""
	if what, d.begun, err = content(disk, size); err != nil {
		return dataDisk{}, fmt.Errorf("inspect %s: %w", d.device, err)
	}
	if what != "" {
		return dataDisk{}, writ.Errorf(writ.CodeConflict,
			"%s, the disk with the serial number %s, is not empty: it has %s. It was not changed", d.device, serial,
			what).
			WithHint("name another disk. If you do not need the content of this one, clear it on another machine: blkdiscard --zeroout DISK")
	}
	return d, nil
}

// makeFileSystem makes a file system with makingLabel on an empty disk. It does not retry: a failure needs a person.
func (m *Mounter) makeFileSystem(ctx context.Context, d dataDisk) error {
	if _, err := os.Stat(mkfsAt); err != nil {
		return writ.Errorf(writ.CodeUsage, "%s is empty, and the image has no program %s", d.device, mkfsAt).
			WithHint("build the image with Debian's package btrfs-progs and its libraries in --packages")
	}
	m.Show(progress.StageData,
		"makes a file system on "+d.device+", the empty disk with the serial number "+m.Disk.Serial)
	m.Waits(progress.StageData, "makes a file system on "+d.device, mkfsLimit)
	making, cancel := context.WithTimeout(ctx, mkfsLimit.Most)
	defer cancel()
	var said []string
	failed, err := m.Run(making, path.Base(mkfsAt), append([]string{mkfsAt}, d.mkfs()...),
		func(line string) { said = append(said, line) })
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return err
	case making.Err() != nil:
		return writ.Errorf(writ.CodeUsage, "%s did not make a file system on %s within %s", mkfsAt, d.device,
			mkfsLimit.Most).
			WithHint("check the disk. Start the machine again to try again, or name another disk")
	case failed != "":
		return writ.Errorf(writ.CodeUsage, "%s cannot make a file system on %s: %s: %s", mkfsAt, d.device,
			failed, strings.Join(said, "; ")).
			WithHint("start the machine again to try again, or name another disk")
	}
	return nil
}

// mkfs returns the arguments of mkfs.btrfs. Blocks are not discarded: discarding is slow on some disks, and the
// unchecked part of the disk may hold data.
func (d *dataDisk) mkfs() []string {
	args := []string{"--quiet", "--nodiscard", "--label", makingLabel}
	if d.begun {
		args = append(args, "--force") // to overwrite the unfinished file system of an earlier attempt
	}
	return append(args, d.device)
}

// setBtrfsLabel is BTRFS_IOC_SET_FSLABEL. Its argument has 256 bytes.
const setBtrfsLabel = 0x41009432

// setLabel sets the label of the btrfs mounted at dir and syncs it to disk.
func setLabel(dir, label string) error {
	top, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer top.Close()
	var text [btrfsLabelSize]byte
	if len(label) >= len(text) {
		return fmt.Errorf("the label has %d bytes, and btrfs has room for %d", len(label), len(text)-1)
	}
	copy(text[:], label)
	if _, _, wrong := unix.Syscall(unix.SYS_IOCTL, top.Fd(), setBtrfsLabel,
		uintptr(unsafe.Pointer(&text))); wrong != 0 {
		return wrong
	}
	return unix.Syncfs(int(top.Fd()))
}

package datadisk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"writ"
	"writ/efi/boot/devices"
	"writ/efi/progress"
	"writ/internal/diskspace"
)

// lookForDisk is the time between searches for the disk.
const lookForDisk = time.Second

// everyDiskLook describes lookForDisk for people.
var everyDiskLook = fmt.Sprintf("every %.0f s", lookForDisk.Seconds())

// usuallyThere is the time within which disks usually appear, including slow USB disks. After this time, a missing disk
// is reported as an error.
const usuallyThere = 5 * time.Second

// Limits of the waits for the disk.
var (
	diskLimit = progress.Limit{Then: "it looks for the disk " + everyDiskLook +
		", because without the disk this machine would be another node"}
	mountLimit = progress.Limit{Then: "the kernel reads the file system"}
)

// Mounter finds the data disk and mounts it.
type Mounter struct {
	Host
	Disk   Settings
	Loader *devices.Loader // nil without modules
}

// Mount mounts the data disk, if one is configured. It waits for a disk that appears late: with its data in memory,
// the machine would be another node.
func (m *Mounter) Mount(ctx context.Context) error {
	if m.Disk.Label == "" {
		m.Stage("data", "in memory: after a restart this machine is another node")
		return nil
	}
	look := time.NewTicker(lookForDisk)
	defer look.Stop()
	for began := time.Now(); ; {
		disk, err := m.findDisk()
		if err == nil {
			return m.useDisk(ctx, disk)
		}
		m.Waits(progress.StageData, err.Error(), diskLimit)
		if time.Since(began) > usuallyThere {
			m.FailAgain(progress.StageData, withLacking(err, devices.Lacking(devices.DiskControllers)),
				"it looks for the disk "+everyDiskLook)
		}
		select {
		case <-look.C:
			if m.Loader != nil {
				_, _ = m.Loader.All() // failures were reported at the first attempt
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// dataDisk is the disk or partition for the node's data.
type dataDisk struct {
	device, kind string
	empty, begun bool // empty: needs a file system; begun: an earlier attempt to make it was interrupted
}

// findDisk returns the disk with the node's data, or the empty disk for it.
func (m *Mounter) findDisk() (dataDisk, error) {
	device, kind, err := findData("/sys/class/block", "/dev", m.Disk.Label)
	switch {
	case m.Disk.Serial == "":
		return dataDisk{device: device, kind: kind}, err
	case err == nil:
		return dataDisk{device: device, kind: kind}, checkNamed(os.DirFS("/sys/block"), device, m.Disk.Label,
			m.Disk.Serial)
	case writ.CodeOf(err) != writ.CodeNotFound:
		return dataDisk{}, err
	}
	return findEmpty(os.DirFS("/sys/block"), "/dev", m.Disk.Serial)
}

// useDisk mounts the data disk. It makes the file system first if the disk is empty.
func (m *Mounter) useDisk(ctx context.Context, d dataDisk) error {
	how := "with the label"
	if d.empty {
		if err := m.makeFileSystem(ctx, d); err != nil {
			return err
		}
		d.kind, how = "btrfs", "made with the label"
	}
	at := m.Disk.mountPoint()
	m.Waits(progress.StageData, "mounts "+d.device, mountLimit)
	if err := d.mount(at, m.Disk.Dir, func() error { return otherNode(m.NodeOnDisk(), m.Disk.Node) }); err != nil {
		return err
	}
	if d.empty {
		if err := setLabel(at, m.Disk.Label); err != nil {
			return errors.Join(fmt.Errorf("set the label of the file system on %s: %w", d.device, err), unmount(at))
		}
	}
	m.Stage("data", "%s, %s %s %s", d.device, d.kind, how, m.Disk.Label)
	return m.checkRoom(d, at)
}

// checkRoom reports a full disk and creates the node's directory, which marks the disk as a node's.
func (m *Mounter) checkRoom(d dataDisk, at string) error {
	size, free, err := diskspace.Of(at)
	if err != nil {
		return fmt.Errorf("read the free space of %s: %w", d.device, err)
	}
	if err := full(d.device, free, size); err != nil {
		m.FailBeside(progress.StageData, err)
	}
	// A full disk is not an error here: the runner will report its own failure.
	if err := os.Mkdir(m.Disk.Dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) && !errors.Is(err, unix.ENOSPC) {
		return fmt.Errorf("make a directory on %s: %w", d.device, err)
	}
	return nil
}

// findData returns the only disk or partition whose file system has the label. class is /sys/class/block and dev is
// /dev.
func findData(class, dev, label string) (device, kind string, err error) {
	entries, err := os.ReadDir(class)
	if err != nil {
		return "", "", fmt.Errorf("list the disks: %w", err)
	}
	var found, seen []string // found: devices with the label; seen: descriptions of all devices
	other := ""              // unusable content with the label
	for _, e := range entries {
		if noData(e.Name()) {
			continue
		}
		path := filepath.Join(dev, e.Name())
		disk, err := os.Open(path)
		if err != nil {
			continue // removed meanwhile, or without a medium
		}
		text, is, has := describeDisk(e.Name(), disk)
		disk.Close()
		seen = append(seen, text)
		switch {
		case has != label:
		case is == "btrfs" || is == "ext4":
			found, device, kind = append(found, path), path, is
		default:
			other = is + " on " + path
		}
	}
	switch len(found) {
	case 1:
		return device, kind, nil
	case 0:
		return "", "", noDisk(label, other, seen)
	}
	return "", "", writ.Errorf(writ.CodeConflict, "several disks have a file system with the label %s: %s", label,
		strings.Join(found, " ")).
		WithHint("detach the wrong one: one of them may be a copy")
}

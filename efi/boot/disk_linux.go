package boot

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
)

// usuallyThere is how long disks take to appear; those behind USB are slow.
const usuallyThere = 5 * time.Second

// mountData mounts the disk with the node's data, if the configuration names one. It waits for a disk that comes late: in memory instead, the
// machine would be another node.
func (m *machine) mountData(ctx context.Context) error {
	if m.config.label() == "" {
		m.stage("data", "in memory: after a restart this machine is another node")
		return nil
	}
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for began, told := time.Now(), (time.Time{}); ; {
		disk, err := m.findDisk()
		if err == nil {
			return m.useDisk(ctx, disk)
		}
		if time.Since(began) > usuallyThere && time.Since(told) > tellEvery {
			told = time.Now()
			m.fail("data", err)
		}
		select {
		case <-look.C:
			if m.loader != nil {
				_, _ = m.loader.all() // what failed was told before
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// dataDisk is a disk, or a partition, for the node's data.
type dataDisk struct {
	device, kind string
	empty, begun bool // the file system is to be made; that was begun before and did not come to its end
}

// findDisk finds the disk with the node's data, or the one where they shall be.
func (m *machine) findDisk() (dataDisk, error) {
	device, kind, err := findData("/sys/class/block", "/dev", m.config.label())
	switch {
	case m.config.Disk == "":
		return dataDisk{device: device, kind: kind}, err
	case err == nil:
		return dataDisk{device: device, kind: kind}, checkNamed(os.DirFS("/sys/block"), device, m.config.label(), m.config.Disk)
	case writ.CodeOf(err) != writ.CodeNotFound:
		return dataDisk{}, err
	}
	return findEmpty(os.DirFS("/sys/block"), "/dev", m.config.Disk)
}

// useDisk mounts the disk with the node's data, and makes its file system before if there is none.
func (m *machine) useDisk(ctx context.Context, d dataDisk) error {
	how := "with the label"
	if d.empty {
		if err := m.makeFileSystem(ctx, d); err != nil {
			return err
		}
		d.kind, how = "btrfs", "made with the label"
	}
	at := filepath.Dir(DataAt)
	if err := unix.Mount(d.device, at, d.kind, unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOATIME, ""); err != nil {
		return writ.Errorf(writ.CodeUsage, "cannot mount %s as %s: %v", d.device, d.kind, err).
			WithHint("check the file system on another machine; the kernel says more there")
	}
	if d.empty {
		if err := setLabel(at, m.config.label()); err != nil {
			return errors.Join(fmt.Errorf("give the file system of %s its label: %w", d.device, err), unmountData())
		}
	}
	m.stage("data", "%s, %s %s %s", d.device, d.kind, how, m.config.label())
	return nil
}

// findData finds the one disk or partition whose file system has a label.
func findData(class, dev, label string) (device, kind string, err error) {
	entries, err := os.ReadDir(class)
	if err != nil {
		return "", "", fmt.Errorf("list the disks: %w", err)
	}
	var found, seen []string
	for _, e := range entries {
		if noData(e.Name()) {
			continue
		}
		path := filepath.Join(dev, e.Name())
		disk, err := os.Open(path)
		if err != nil {
			continue // it is gone again, or has no medium
		}
		is, has := fileSystem(disk)
		disk.Close()
		seen = append(seen, e.Name())
		if is != "" && has == label {
			found, device, kind = append(found, path), path, is
		}
	}
	switch len(found) {
	case 1:
		return device, kind, nil
	case 0:
		return "", "", writ.Errorf(writ.CodeNotFound, "no disk has a file system with the label %s; there are %d disks and partitions: %s", label, len(seen), strings.Join(seen, " ")).
			WithHint("attach the disk, or name it by its serial number with %s; or make its file system: mkfs.btrfs -L %s DISK, or mkfs.ext4 -L %s DISK", prefix+"disk", label, label)
	}
	return "", "", writ.Errorf(writ.CodeConflict, "several disks have a file system with the label %s: %s", label, strings.Join(found, " ")).
		WithHint("detach the wrong one: one of them may be a copy")
}

// unmountData leaves the disk with the node's data in order.
func unmountData() error {
	if err := unix.Unmount(filepath.Dir(DataAt), 0); err != nil {
		return fmt.Errorf("unmount the data: %w", err)
	}
	return nil
}

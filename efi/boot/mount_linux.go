package boot

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"writ"
)

// asItIs are the options by which the kernel writes nothing of the journal of a file system to its place.
var asItIs = map[string]string{"btrfs": "rescue=nologreplay", "ext4": "noload"}

// mount mounts a disk at a directory if it can be that of the node. own refuses the data of another node there.
func (d *dataDisk) mount(at string, own func() error) error {
	if err := d.look(at, own); err != nil {
		return err
	}
	if err := d.mountAs(at, 0, ""); err != nil {
		return err
	}
	if err := d.check(at, own); err != nil { // with what was in the journal
		return errors.Join(err, unmount(at))
	}
	return nil
}

// look refuses a disk whose files are not those of a node, and writes nothing to it: a mount for reading alone writes the journal of a machine that
// was turned off, or that has the disk now.
func (d *dataDisk) look(at string, own func() error) error {
	release, err := protect(d.device)
	if err != nil {
		return err
	}
	defer release()
	if err := d.mountAs(at, unix.MS_RDONLY, asItIs[d.kind]); err != nil {
		return err
	}
	return errors.Join(d.check(at, own), unmount(at))
}

func (d *dataDisk) mountAs(at string, flags uintptr, options string) error {
	if err := unix.Mount(d.device, at, d.kind, unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOATIME|flags, options); err != nil {
		return writ.Errorf(writ.CodeUsage, "cannot mount %s as %s: %v", d.device, d.kind, err).
			WithHint("check the file system on another machine; the kernel says more there")
	}
	return nil
}

// check refuses a disk that is mounted and has files of others, or of another node.
func (d *dataDisk) check(at string, own func() error) error {
	entries, err := os.ReadDir(at)
	if err != nil {
		return fmt.Errorf("list the files of %s: %w", d.device, err)
	}
	data := filepath.Base(DataAt)
	var names []string
	for _, e := range entries {
		name := e.Name()
		if name == data && !e.IsDir() { // a link would lead out of the disk
			name += " (no directory)"
		}
		names = append(names, name)
	}
	if err := foreign(names, data); err != nil {
		return err
	}
	return own()
}

// protect has the kernel refuse what is written to a disk, whoever writes it, until release.
func protect(device string) (release func(), err error) {
	disk, err := os.Open(device)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", device, err)
	}
	was, err := unix.IoctlGetInt(int(disk.Fd()), unix.BLKROGET)
	if err == nil && was == 0 {
		err = unix.IoctlSetPointerInt(int(disk.Fd()), unix.BLKROSET, 1)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("protect %s while it is looked at: %w", device, err), disk.Close())
	}
	return func() {
		if was == 0 {
			_ = unix.IoctlSetPointerInt(int(disk.Fd()), unix.BLKROSET, 0) // else the mount that follows says so
		}
		disk.Close()
	}, nil
}

func unmount(at string) error {
	if err := unix.Unmount(at, 0); err != nil {
		return fmt.Errorf("unmount %s: %w", at, err)
	}
	return nil
}

package datadisk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"writ"
)

// asItIs holds, by type of file system, the mount options that prevent the kernel from replaying its journal.
var asItIs = map[string]string{"btrfs": "rescue=nologreplay", "ext4": "noload"}

// mount mounts a disk at a directory if the disk can belong to this node. data is the node's directory on the disk.
// `own` returns an error if the disk belongs to another node.
func (d *dataDisk) mount(at, data string, own func() error) error {
	if err := d.look(at, data, own); err != nil {
		return err
	}
	if err := d.mountAs(at, 0, ""); err != nil {
		return err
	}
	if err := d.check(at, data, own); err != nil { // checked again after the journal was replayed
		return errors.Join(err, unmount(at))
	}
	return nil
}

// look checks that the files of a disk belong to a node, without writing to the disk. A plain read-only mount would
// replay the journal of a machine that lost power, or of a machine that is using the disk now.
func (d *dataDisk) look(at, data string, own func() error) error {
	release, err := protect(d.device)
	if err != nil {
		return err
	}
	defer release()
	if err := d.mountAs(at, unix.MS_RDONLY, asItIs[d.kind]); err != nil {
		return err
	}
	return errors.Join(d.check(at, data, own), unmount(at))
}

func (d *dataDisk) mountAs(at string, flags uintptr, options string) error {
	if err := unix.Mount(d.device, at, d.kind, unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOATIME|flags,
		options); err != nil {
		return writ.Errorf(writ.CodeUsage, "cannot mount %s as %s: %v", d.device, d.kind, err).
			WithHint("check the file system on another machine; its kernel log has details")
	}
	return nil
}

// check returns an error if a mounted disk has foreign files or belongs to another node.
func (d *dataDisk) check(at, data string, own func() error) error {
	entries, err := os.ReadDir(at)
	if err != nil {
		return fmt.Errorf("list the files of %s: %w", d.device, err)
	}
	data = filepath.Base(data)
	var names []string
	for _, e := range entries {
		name := e.Name()
		if name == data && !e.IsDir() { // a symbolic link would lead off the disk
			name += " (no directory)"
		}
		names = append(names, name)
	}
	if err := foreign(names, data); err != nil {
		return err
	}
	return own()
}

// protect makes a block device read-only for every process until release is called.
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
		return nil, errors.Join(fmt.Errorf("protect %s during the inspection: %w", device, err), disk.Close())
	}
	return func() {
		if was == 0 {
			_ = unix.IoctlSetPointerInt(int(disk.Fd()), unix.BLKROSET, 0) // the mount that follows reports a failure
		}
		disk.Close()
	}, nil
}

// unmount unmounts a file system.
func unmount(at string) error {
	if err := unix.Unmount(at, 0); err != nil {
		return fmt.Errorf("unmount %s: %w", at, err)
	}
	return nil
}

package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"writ"
	"writ/internal/diskformat"
	"writ/sal"
)

// disk is the file in a volume that machines use as their disk. It may not exist.
type disk struct {
	volume writ.ResourceID
	dir    string // of the volume
	step   func(name string)
}

func (j *job) disk(dir string) disk { return disk{j.Resource, dir, j.step} }

// claim prepares the disk after the content was created or restored, while no resource uses the disk. It takes the disk
// back from the user of a machine's process and grows it to a size in bytes.
func (d disk) claim(size int64) error {
	if err := sal.ReclaimDisk(d.dir, d.step); err != nil {
		return sal.HostError("reclaim the disk of "+d.volume.String(), err)
	}
	return d.grow(size)
}

// grow extends the disk to a size in bytes.
func (d disk) grow(size int64) error {
	root, err := os.OpenRoot(d.dir) // the volume may contain links to other directories
	if err != nil {
		return sal.HostError("open the volume", err)
	}
	defer root.Close()
	info, err := root.Lstat(sal.DiskName)
	if errors.Is(err, fs.ErrNotExist) || err == nil && (!info.Mode().IsRegular() || info.Size() >= size) {
		return nil
	}
	if err == nil {
		d.step("grow the disk")
		err = extend(root, size)
	}
	return sal.HostError("grow the disk of "+d.volume.String(), err)
}

// extend extends the disk in a volume.
func extend(root *os.Root, size int64) error {
	f, err := root.OpenFile(sal.DiskName, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	err = f.Truncate(size)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// rawDisk returns ARGUMENTS_INVALID if it recognises a format other than a raw disk in an image. Such a disk would be
// unusable.
func rawDisk(path, name string) error {
	f, err := os.Open(path)
	if err != nil {
		return sal.HostError("read the image "+name, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return sal.HostError("read the image "+name, err)
	}
	format, recognised, err := diskformat.Recognise(f, info.Size())
	if err != nil {
		return sal.HostError("read the image "+name, err)
	}
	if recognised {
		return writ.Errorf(writ.CodeArgumentsInvalid, "the image %s is %s, but a volume needs a raw disk", name,
			format.Name).
			WithHint("%s", format.Remedy)
	}
	return nil
}

// fits returns QUOTA_EXCEEDED if bytes exceed the size of a volume.
func fits(volume writ.ResourceID, bytes, sizeGiB int64) error {
	if bytes > sizeGiB*gib {
		return tooSmall(volume, sizeGiB, fmt.Sprintf("%d bytes", bytes))
	}
	return nil
}

func tooSmall(volume writ.ResourceID, sizeGiB int64, content string) error {
	return writ.Errorf(writ.CodeQuotaExceeded, "%s would have %d GiB, but its content needs %s", volume, sizeGiB,
		content).
		WithHint("use a larger size_gib")
}

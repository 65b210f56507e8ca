package sal

import (
	"os"

	"golang.org/x/sys/unix"
)

// noCopyOnWrite is FS_NOCOW_FL of linux/fs.h: writes go to the same blocks again, without checksums.
const noCopyOnWrite = 0x00800000

// share makes the empty file `to` share all blocks of `from`. It returns false if the file system does not support
// this. The kernel refuses if only one of the two files is written in place, so share first copies that flag to `to`.
func share(to, from *os.File) bool {
	if flags, err := unix.IoctlGetUint32(int(from.Fd()), unix.FS_IOC_GETFLAGS); err == nil {
		setInPlace(to, flags&noCopyOnWrite != 0)
	}
	return unix.IoctlFileClone(int(to.Fd()), int(from.Fd())) == nil
}

// InPlace asks the file system to write files created in a directory in place. Disks of machines and databases need
// this; btrfs fragments them otherwise. Call it on an empty directory. InPlace has no effect on a file system without
// such a flag.
func InPlace(dir string) {
	f, err := os.Open(dir)
	if err != nil {
		return
	}
	defer f.Close()
	setInPlace(f, true)
}

func setInPlace(f *os.File, on bool) {
	flags, err := unix.IoctlGetUint32(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err != nil || flags&noCopyOnWrite != 0 == on {
		return
	}
	_ = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, int(flags^noCopyOnWrite))
}

// Data returns the next range of data in a file of the given size at or after an offset. If the rest of the file is a
// hole, both start and end are size.
func Data(f *os.File, at, size int64) (start, end int64) {
	start, err := unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
	if err == unix.ENXIO {
		return size, size
	}
	if err != nil {
		return at, size // the file system has no holes
	}
	if end, err = unix.Seek(int(f.Fd()), start, unix.SEEK_HOLE); err != nil {
		end = size
	}
	return min(start, size), min(end, size)
}

package sal

import (
	"os"

	"golang.org/x/sys/unix"
)

// noCopyOnWrite is FS_NOCOW_FL of linux/fs.h: writes go to the same blocks again, without checksums.
const noCopyOnWrite = 0x00800000

// share makes `to`, an empty file, share the blocks of `from`, and reports whether the disk supports this. The kernel
// refuses if only one of the files is written in place, so share copies that flag first.
func share(to, from *os.File) bool {
	if flags, err := unix.IoctlGetUint32(int(from.Fd()), unix.FS_IOC_GETFLAGS); err == nil {
		setInPlace(to, flags&noCopyOnWrite != 0)
	}
	return unix.IoctlFileClone(int(to.Fd()), int(from.Fd())) == nil
}

// InPlace asks the file system to write files created in a directory in place. Disks of machines and databases need
// this; btrfs fragments them otherwise. Call it on an empty directory. File systems without such a flag are ignored.
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

// Data returns the next range of data in a file of the given size at or after an offset. If only a hole is left, the
// range is empty and at the end.
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

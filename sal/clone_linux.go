package sal

import (
	"os"

	"golang.org/x/sys/unix"
)

// noCopyOnWrite is FS_NOCOW_FL of linux/fs.h: writes go to the same place again, without a checksum.
const noCopyOnWrite = 0x00800000

// share lets the empty file to have the blocks of from, and reports whether the disk could do it. A disk refuses when only one of the two
// is written in place, so to becomes like from in that first.
func share(to, from *os.File) bool {
	if flags, err := unix.IoctlGetUint32(int(from.Fd()), unix.FS_IOC_GETFLAGS); err == nil {
		setInPlace(to, flags&noCopyOnWrite != 0)
	}
	return unix.IoctlFileClone(int(to.Fd()), int(from.Fd())) == nil
}

// InPlace asks the disk to write to files that will be made in a directory in place, as disks of machines and databases need it: else
// btrfs scatters them. It is best asked of an empty directory; disks that know no such thing are left as they are.
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

// Data finds the next range of a file, at or after an offset, that is no hole. If only a hole is left, it is empty and at the end.
func Data(f *os.File, at, size int64) (start, end int64) {
	start, err := unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
	if err == unix.ENXIO {
		return size, size
	}
	if err != nil {
		return at, size // a file system without holes
	}
	if end, err = unix.Seek(int(f.Fd()), start, unix.SEEK_HOLE); err != nil {
		end = size
	}
	return min(start, size), min(end, size)
}

package sal

import (
	"errors"
	"math"
	"os"
	"syscall"
)

// dataFrom returns the first place in a file behind an offset that has not been given back to the disk, beyond every end if there is none.
func dataFrom(f *os.File, offset int64) int64 {
	const seekData = 3 // lseek(2)
	at, err := f.Seek(offset, seekData)
	switch {
	case err == nil:
		return at
	case errors.Is(err, syscall.ENXIO):
		return math.MaxInt64 / 2
	default:
		return offset // the file system cannot tell
	}
}

package logfile

import (
	"errors"
	"math"
	"os"
	"syscall"
)

// dataFrom returns the first offset of data at or after offset, skipping punched holes. If only a hole is left, it
// returns an offset beyond any end of file.
func dataFrom(f *os.File, offset int64) int64 {
	const seekData = 3 // lseek(2)
	at, err := f.Seek(offset, seekData)
	switch {
	case err == nil:
		return at
	case errors.Is(err, syscall.ENXIO):
		return math.MaxInt64 / 2
	default:
		return offset // the file system does not report holes
	}
}

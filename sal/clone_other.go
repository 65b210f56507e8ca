//go:build !linux

package sal

import "os"

func share(_, _ *os.File) bool { return false }

// InPlace has no effect outside Linux.
func InPlace(string) {}

// Data treats the whole file as data outside Linux.
func Data(_ *os.File, at, size int64) (start, end int64) { return at, size }

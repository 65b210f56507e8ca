//go:build !linux

package sal

import "os"

func share(_, _ *os.File) bool { return false }

// InPlace does nothing: see the one for Linux.
func InPlace(string) {}

// Data says that a file has no holes: see the one for Linux.
func Data(_ *os.File, at, size int64) (start, end int64) { return at, size }

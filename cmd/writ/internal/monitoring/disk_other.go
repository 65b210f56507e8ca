//go:build !linux && !darwin

package monitoring

import "errors"

// diskOf is not supported on this system.
func diskOf(string) (size, free uint64, err error) { return 0, 0, errors.ErrUnsupported }

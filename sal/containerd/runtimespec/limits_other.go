//go:build !linux

package runtimespec

import "errors"

const rlimitNoFile, rlimitMemlock = 0, 0

// hardLimit returns an error: only Linux has containers.
func hardLimit(_, _ int) (uint64, error) { return 0, errors.ErrUnsupported }

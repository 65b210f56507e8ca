//go:build !linux

package sal

import (
	"errors"
	"os"
)

// EachAttribute visits no attribute: only Linux is supported.
func EachAttribute(*os.File, func(name, value string) error) error { return nil }

// SetAttribute does nothing.
func SetAttribute(*os.File, string, string) error { return nil }

// MakePipe cannot be done.
func MakePipe(*os.File, string) error { return errors.ErrUnsupported }

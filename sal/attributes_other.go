//go:build !linux

package sal

import (
	"errors"
	"os"
)

// Attributes are those of Linux only.
func Attributes(*os.File) (map[string]string, error) { return nil, nil }

// SetAttribute does nothing.
func SetAttribute(*os.File, string, string) error { return nil }

// MakePipe cannot be done.
func MakePipe(*os.File, string) error { return errors.ErrUnsupported }

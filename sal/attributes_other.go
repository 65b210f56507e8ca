//go:build !linux

package sal

import (
	"errors"
	"os"
)

// EachAttribute visits no attributes: extended attributes are supported only on Linux.
func EachAttribute(*os.File, func(name, value string) error) error { return nil }

// SetAttribute ignores the attribute: extended attributes are supported only on Linux.
func SetAttribute(*os.File, string, string) error { return nil }

// MakePipe returns errors.ErrUnsupported.
func MakePipe(*os.File, string) error { return errors.ErrUnsupported }

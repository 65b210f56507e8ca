//go:build !linux

package userns

import (
	"errors"
	"os"
)

var errSystem = errors.New("only Linux has user namespaces")

// KeepNetwork refuses.
func KeepNetwork(uint32, string) error { return errSystem }

// Open refuses.
func Open(uint32) (*os.File, error) { return nil, errSystem }

// OfNetwork refuses.
func OfNetwork(string) (*os.File, error) { return nil, errSystem }

// Show refuses.
func Show(*os.File, string, string) error { return errSystem }

// Attempt refuses.
func Try(uint32, string) error { return errSystem }

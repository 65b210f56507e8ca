//go:build !linux

package userns

import (
	"errors"
	"os"
)

var errSystem = errors.New("only Linux has user namespaces")

// KeepNetwork returns an error.
func KeepNetwork(uint32, string) error { return errSystem }

// Open returns an error.
func Open(uint32) (*os.File, error) { return nil, errSystem }

// OfNetwork returns an error.
func OfNetwork(string) (*os.File, error) { return nil, errSystem }

// Show returns an error.
func Show(*os.File, string, string) error { return errSystem }

// Try returns an error.
func Try(uint32, string) error { return errSystem }

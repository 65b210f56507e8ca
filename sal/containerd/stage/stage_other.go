//go:build !linux

package stage

import "errors"

var errSystem = errors.New("only Linux has user namespaces")

// Fill returns an error: only Linux has user namespaces.
func (s Stage) Fill(Content) error { return errSystem }

// Clear does nothing, because the stage is always empty.
func (s Stage) Clear() error { return nil }

// Supported returns an error: only Linux has user namespaces.
func Supported() error { return errSystem }

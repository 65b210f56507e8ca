//go:build !linux

package stage

import (
	"errors"
	"io/fs"

	"writ/sal/containerd/device"
)

var errSystem = errors.New("only Linux has user namespaces")

// Fill returns an error: only Linux has user namespaces.
func (s Stage) Fill(Content) error { return errSystem }

// MakeDevices returns an error unless devices is empty: only Linux has user namespaces.
func (s Stage) MakeDevices(devices []device.Device, _ uint32) error {
	if len(devices) == 0 {
		return nil
	}
	return errSystem
}

// Lstat returns an error: only Linux has user namespaces.
func Lstat(string, string) (fs.FileInfo, error) { return nil, errSystem }

// Clear does nothing, because the stage is always empty.
func (s Stage) Clear() error { return nil }

// Supported returns an error: only Linux has user namespaces.
func Supported() error { return errSystem }

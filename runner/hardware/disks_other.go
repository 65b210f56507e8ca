//go:build !linux

package hardware

import "writ"

// Disks returns nil: real nodes run Linux.
func Disks(...string) []writ.Disk { return nil }

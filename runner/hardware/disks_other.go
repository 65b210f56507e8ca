//go:build !linux

package hardware

import "writ"

// Disks returns nothing: real nodes run Linux.
func Disks(...string) []writ.Disk { return nil }

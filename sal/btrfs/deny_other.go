//go:build !linux

package btrfs

func (subvolumes) deny(string) error    { return nil }
func (subvolumes) denyAll(layout) error { return nil }

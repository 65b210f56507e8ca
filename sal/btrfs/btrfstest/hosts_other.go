//go:build !linux || !cgo

// Package btrfstest makes btrfs file systems on which drivers are examined.
package btrfstest

import "testing"

// Hosts are directories on btrfs, which this build cannot make.
type Hosts struct{}

// NewHosts skips the test.
func NewHosts(t testing.TB) Hosts {
	t.Skip("btrfs needs Linux and cgo")
	return Hosts{}
}

// New is never called.
func (Hosts) New(testing.TB) string { return "" }

// Replace is never called.
func (Hosts) Replace(testing.TB, string, string) {}

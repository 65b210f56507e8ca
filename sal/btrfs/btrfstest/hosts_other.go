//go:build !linux || !cgo

// Package btrfstest creates btrfs file systems for the conformance suite of drivers.
package btrfstest

import "testing"

// Hosts replaces the type of the same name in builds for Linux with cgo.
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

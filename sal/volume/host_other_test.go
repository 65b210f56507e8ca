//go:build !linux

package volume

import "testing"

func (k kind) writesInPlace() bool         { return false }
func inPlace(testing.TB, string) bool      { return false }
func setAttributes(string) error           { return nil }
func attributes(testing.TB, string) string { return "" }
func shares(testing.TB, string) bool       { return true }

//go:build !linux

package testenv

// Privileged returns false: only Linux has the namespaces that tests create.
func Privileged() bool { return false }

//go:build !linux

package testenv

// Privileged is false: only Linux has the namespaces that tests make.
func Privileged() bool { return false }

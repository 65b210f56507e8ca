//go:build !linux

package runnerd

import "testing"

// alone returns true: other systems have no host drivers, so another node cannot disturb a test.
func alone(*testing.T) bool { return true }

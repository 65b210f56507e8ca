//go:build !linux

package containerd

import "errors"

// countersOf exists on Linux only, as namespaces do.
func countersOf(string) (string, error) { return "", errors.ErrUnsupported }

//go:build !linux

// Package netns moves a goroutine into a Linux network namespace and back. It does not depend on the content of the
// namespace.
package netns

import "errors"

// Enter returns an error: this system has no network namespaces.
func Enter(string) (leave func(), err error) {
	return nil, errors.New("only Linux has network namespaces")
}

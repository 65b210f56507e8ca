//go:build !linux

package host

import (
	"errors"

	"writ/sal/catalog"
)

// read returns ErrUnsupported: nodes run Linux, and only the command line is built for other systems.
func read(string) (catalog.NodeFacts, error) {
	return catalog.NodeFacts{}, errors.ErrUnsupported
}

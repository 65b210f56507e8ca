//go:build !linux

package health

import (
	"context"
	"errors"
	"net"
	"os"
)

// dial returns an error: this system has no network namespaces.
func dial(context.Context, *os.File, uint16) (net.Conn, error) {
	return nil, errors.New("only Linux has network namespaces")
}

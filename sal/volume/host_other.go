//go:build !linux

package volume

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func attributesOf(*os.File) (map[string]string, error) { return nil, nil }
func setAttribute(*os.File, string, string) error      { return nil }
func makePipe(*os.File, string) error                  { return errors.ErrUnsupported }

func syncAll(string) error {
	unix.Sync()
	return nil
}

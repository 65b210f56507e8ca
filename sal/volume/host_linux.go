package volume

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// syncAll syncs the file system of a directory.
func syncAll(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(d.Fd())), d.Close())
}

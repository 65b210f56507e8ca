package sal

import (
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Attributes are the extended attributes of an open file or directory that IsAttribute names.
func Attributes(f *os.File) (map[string]string, error) {
	n, err := unix.Flistxattr(int(f.Fd()), nil)
	if n == 0 && err == nil || errors.Is(err, unix.ENOTSUP) {
		return nil, nil
	}
	names := make([]byte, 64<<10) // as much as the kernel has at most
	n, err = unix.Flistxattr(int(f.Fd()), names)
	if err != nil {
		return nil, &os.PathError{Op: "listxattr", Path: f.Name(), Err: err}
	}
	var all map[string]string
	for name := range strings.SplitSeq(string(names[:n]), "\x00") {
		if !IsAttribute(name) {
			continue
		}
		value := make([]byte, 64<<10)
		n, err := unix.Fgetxattr(int(f.Fd()), name, value)
		if errors.Is(err, unix.ENODATA) {
			continue
		}
		if err != nil {
			return nil, &os.PathError{Op: "getxattr", Path: f.Name(), Err: err}
		}
		if all == nil {
			all = map[string]string{}
		}
		all[name] = string(value[:n])
	}
	return all, nil
}

// SetAttribute sets one; a disk that has none does without.
func SetAttribute(f *os.File, name, value string) error {
	err := unix.Fsetxattr(int(f.Fd()), name, []byte(value), 0)
	if errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	return err
}

// MakePipe makes a named pipe in an open directory.
func MakePipe(dir *os.File, name string) error { return unix.Mkfifoat(int(dir.Fd()), name, 0o600) }

package sal

import (
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// maxAttribute is the kernel's limit of the value of an attribute, and of the list of all names.
const maxAttribute = 64 << 10

// EachAttribute calls visit for each extended attribute of an open file or directory that IsAttribute accepts. It holds one
// value at a time: a file can have more attributes than fit into memory.
func EachAttribute(f *os.File, visit func(name, value string) error) error {
	n, err := unix.Flistxattr(int(f.Fd()), nil)
	if n == 0 && err == nil || errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	names := make([]byte, maxAttribute)
	n, err = unix.Flistxattr(int(f.Fd()), names)
	if err != nil {
		return &os.PathError{Op: "listxattr", Path: f.Name(), Err: err}
	}
	value := make([]byte, maxAttribute)
	for name := range strings.SplitSeq(string(names[:n]), "\x00") {
		if !IsAttribute(name) {
			continue
		}
		n, err := unix.Fgetxattr(int(f.Fd()), name, value)
		if errors.Is(err, unix.ENODATA) {
			continue
		}
		if err != nil {
			return &os.PathError{Op: "getxattr", Path: f.Name(), Err: err}
		}
		if err := visit(name, string(value[:n])); err != nil {
			return err
		}
	}
	return nil
}

// SetAttribute sets an attribute. File systems without attributes are ignored.
func SetAttribute(f *os.File, name, value string) error {
	err := unix.Fsetxattr(int(f.Fd()), name, []byte(value), 0)
	if errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	return err
}

// MakePipe makes a named pipe in an open directory.
func MakePipe(dir *os.File, name string) error { return unix.Mkfifoat(int(dir.Fd()), name, 0o600) }

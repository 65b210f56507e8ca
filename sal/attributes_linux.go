package sal

import (
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// maxAttribute is the kernel's limit for the value of one attribute and for the list of all names, in bytes.
const maxAttribute = 64 << 10

// EachAttribute calls visit for each extended attribute of an open file or directory that IsAttribute accepts. It loads
// one value at a time, because all values together may be larger than the memory. On a file system without extended
// attributes, it does not call visit.
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

// SetAttribute sets an extended attribute. It returns nil, without effect, on a file system without extended
// attributes.
func SetAttribute(f *os.File, name, value string) error {
	err := unix.Fsetxattr(int(f.Fd()), name, []byte(value), 0)
	if errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	return err
}

// MakePipe creates a named pipe in an open directory.
func MakePipe(dir *os.File, name string) error { return unix.Mkfifoat(int(dir.Fd()), name, 0o600) }

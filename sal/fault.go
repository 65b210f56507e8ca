package sal

import (
	"errors"
	"regexp"
	"strconv"
	"syscall"

	"writ"
)

// Mender is the party that can mend a fault of a host. A retry helps only if the mender is Time.
type Mender string

// The menders.
const (
	Author   Mender = "author"   // of the script: with other arguments
	Operator Mender = "operator" // of the node: with another setting, program, kernel or disk
	Time     Mender = "time"     // by itself
)

// Faults maps errors of the operating system to their mender. An error without a row counts as Time.
var Faults = map[syscall.Errno]Mender{
	syscall.E2BIG:        Author,
	syscall.EFBIG:        Author,
	syscall.EINVAL:       Operator, // the kernel knows no such request
	syscall.ENAMETOOLONG: Operator, // the data directory has a long path
	syscall.EPERM:        Operator,
	syscall.EACCES:       Operator,
	syscall.EROFS:        Operator,
	syscall.ENOSYS:       Operator,
	syscall.EOPNOTSUPP:   Operator,
	syscall.ENOTTY:       Operator, // the kernel has no such ioctl
	syscall.ENODEV:       Operator,
	syscall.ENXIO:        Operator,
	syscall.ENOEXEC:      Operator,
	syscall.ELOOP:        Operator,
	syscall.ENOTDIR:      Operator,
	syscall.EISDIR:       Operator,
	syscall.EXDEV:        Operator,
	syscall.EMLINK:       Operator,
	syscall.EAFNOSUPPORT: Operator,

	syscall.EAGAIN:       Time,
	syscall.EBUSY:        Time,
	syscall.ECONNREFUSED: Time, // a daemon that is started again
	syscall.ECONNRESET:   Time,
	syscall.EEXIST:       Time, // another process may remove the file
	syscall.EINTR:        Time,
	syscall.EIO:          Time, // disks behind a network come back
	syscall.EMFILE:       Time,
	syscall.ENFILE:       Time,
	syscall.ENOENT:       Time, // another process may make the file
	syscall.ENOMEM:       Time,
	syscall.ENOTCONN:     Time,
	syscall.ENOTEMPTY:    Time,
	syscall.EPIPE:        Time,
	syscall.ESTALE:       Time,
	syscall.ETIMEDOUT:    Time,
}

// FaultCode returns the code of an error of the operating system: DRIVER_FAILED if time mends it, else DRIVER_REFUSED,
// which is not repeated.
func FaultCode(err error) writ.Code {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return faultCode(errno)
	}
	return writ.CodeDriverFailed
}

func faultCode(errno syscall.Errno) writ.Code {
	if mender, ok := Faults[errno]; ok && mender != Time {
		return writ.CodeDriverRefused
	}
	return writ.CodeDriverFailed
}

// osError matches the number of an error of the operating system in the output of Rust programs.
var osError = regexp.MustCompile(`\(os error ([0-9]{1,4})\)`)

// SaidCode is FaultCode for the output of a program that contains an error number: "Invalid argument (os error 22)".
func SaidCode(words string) writ.Code {
	if found := osError.FindStringSubmatch(words); found != nil {
		if n, err := strconv.Atoi(found[1]); err == nil {
			return faultCode(syscall.Errno(n))
		}
	}
	return writ.CodeDriverFailed
}

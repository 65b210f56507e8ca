package sal

import (
	"errors"
	"strconv"
	"syscall"

	"writ"
	"writ/internal/lazyregexp"
)

// Mender is the party that can remove the cause of an operating system error. A retry helps only if the mender is Time.
type Mender string

// The menders.
const (
	Author   Mender = "author"   // the author of the script, with other arguments
	Operator Mender = "operator" // the operator of the node, with another setting, program, kernel or disk
	Time     Mender = "time"     // no action is needed: the error may disappear by itself
)

// Faults maps errors of the operating system to their mender. The mender of all other errors is Time.
var Faults = map[syscall.Errno]Mender{
	syscall.E2BIG:        Author,
	syscall.EFBIG:        Author,
	syscall.EINVAL:       Operator, // the kernel does not support the request
	syscall.ENAMETOOLONG: Operator, // the path of the data directory is too long
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
	syscall.ECONNREFUSED: Time, // the daemon may be restarting
	syscall.ECONNRESET:   Time,
	syscall.EEXIST:       Time, // another process may remove the file
	syscall.EINTR:        Time,
	syscall.EIO:          Time, // a network disk may become available again
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

// FaultCode returns the code for an error of the operating system. It returns DRIVER_REFUSED, which is not retried, if
// Faults names the author or the operator as the mender. For all other errors, it returns DRIVER_FAILED, which is
// retried.
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

// osError matches the number of an operating system error in the output of a Rust program.
var osError = lazyregexp.New(`\(os error ([0-9]{1,4})\)`)

// SaidCode is FaultCode for the output of a program that contains an error number: "Invalid argument (os error 22)". It
// returns DRIVER_FAILED for output without an error number.
func SaidCode(words string) writ.Code {
	if found := osError.FindStringSubmatch(words); found != nil {
		if n, err := strconv.Atoi(found[1]); err == nil {
			return faultCode(syscall.Errno(n))
		}
	}
	return writ.CodeDriverFailed
}

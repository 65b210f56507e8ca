package vmm

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
)

// failure is an error answer of the API: a status, and messages from the outermost cause to the innermost.
type failure struct {
	Status int
	Chain  []string
}

func (f *failure) Error() string { return strings.Join(f.Chain, ": ") }

// missing marks the causes with status 404 instead of 500: a missing machine.
type missing string

func (m missing) Error() string { return string(m) }

// The most frequent causes. A wrong state has status 500, contrary to the published API.
const (
	errNotCreated    = missing("VM is not created")
	errMissingConfig = missing("VM config is missing")
)

// pending is the only cause with status 429.
type pending string

func (p pending) Error() string { return string(p) }

const errPendingVCPU = pending("Still pending removed vCPU")

var (
	errAlreadyCreated = errorf("VM is already created")
	errNotRunning     = errorf("VM is not running")
)

// chain is an error with its causes, outermost first.
type chain []string

func (c chain) Error() string { return strings.Join(c, ": ") }

// errorf returns an error in the real program's words, which begin with capitals.
func errorf(format string, args ...any) error { return chain{fmt.Sprintf(format, args...)} }

// wrap wraps an error in a message.
func wrap(text string, err error) error { return append(chain{text}, causes(err)...) }

// causes returns the messages of an error.
func causes(err error) []string {
	if c, ok := errors.AsType[chain](err); ok {
		return c
	}
	return []string{err.Error()}
}

// graded is an error that has its own status since v54. Earlier releases use status 500.
type graded struct {
	chain
	status int
}

func (g graded) Unwrap() error { return g.chain }

// refusal returns the failure of an API action with its cause.
func refusal(release Release, action string, err error) *failure {
	if _, ok := errors.AsType[pending](err); ok {
		return &failure{Status: 429, Chain: []string{"Too Many Requests"}}
	}
	status := 500
	if _, ok := errors.AsType[missing](err); ok {
		status = 404
	}
	if g, ok := errors.AsType[graded](err); ok && release >= V54 {
		status = g.status
	}
	return &failure{Status: status, Chain: append([]string{"Error from API", action}, causes(err)...)}
}

var (
	badRequest = &failure{Status: 400, Chain: []string{"Bad Request"}}
	notFound   = &failure{Status: 404, Chain: []string{"Not Found"}}
)

func invalid(format string, args ...any) error { return misfit(fmt.Sprintf(format, args...)) }

// misfit returns the error of an invalid configuration, with its causes.
func misfit(causes ...string) error {
	return graded{append(chain{"Failed to validate config"}, causes...), 400}
}

// unknownDevice returns the error of a missing device.
func unknownDevice(id string) error {
	return graded{
		chain{"Error from device manager", "Failed to find device corresponding to the given identifier: " + id}, 404,
	}
}

// cause returns a system error in the real program's words, without the path that Go adds.
func cause(err error) error {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		text := errno.Error()
		return errorf("%s%s (os error %d)", strings.ToUpper(text[:1]), text[1:], int(errno))
	}
	return err
}

package writ

import (
	"errors"
	"fmt"
)

// Error is an error meant for a person: its code is in the table, its message and hint are shown. Any other error is
// internal: logged in full, shown to nobody. It crosses every wire, as JSON or CBOR; Err does not.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`        // what went wrong, in the user's words
	Hint    string `json:"hint,omitempty"` // what to do or type next, if we know
	// Proof is the signed Answer of the supervisor that decided so, if one did.
	Proof []byte `json:"proof,omitempty"`
	Err   error  `json:"-"` // the cause, for the log only
}

// Errorf makes an Error. A %w in format becomes its cause, so use it only where the cause's text may be shown.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), Err: errors.Unwrap(err)}
}

// WithHint sets what to do next and returns e.
func (e *Error) WithHint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// Error returns the message; the code is for machines and shown beside it.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Retryable reports whether the same request may succeed later.
func (e *Error) Retryable() bool { return e.Code.Info().Retryable }

// Decided reports whether the error is a decision about what was asked for. All others say that it could not be decided, which may pass.
func (e *Error) Decided() bool {
	if e.Retryable() {
		return false
	}
	switch info := e.Code.Info(); info.Code {
	case CodeInternal, CodeExecError, CodeVerbUnsupported:
		return false
	default:
		return info.Kind != Unavailable
	}
}

// AsError returns the first *Error in err's chain. An error without one becomes INTERNAL, with err as the cause and without its
// text, which may hold what a stranger must not see. Nil stays nil.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Code: CodeInternal, Message: "internal error", Err: err}
}

// CodeOf returns the code of err: "" for nil, INTERNAL when nobody chose one.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	return AsError(err).Code
}

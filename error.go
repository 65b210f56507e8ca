package writ

import (
	"errors"
	"fmt"
)

// Error is an error for people. Its code is in Codes, and its message and hint are shown. Every other error is
// internal: it is logged in full and never shown. All fields except Err are sent between processes, as JSON or CBOR.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`        // the problem, in the user's words
	Hint    string `json:"hint,omitempty"` // the next step, often a command; may be empty
	Node    NodeID `json:"node,omitempty"` // the node whose loss or removal is the cause
	// Proof is the supervisor's signed Answer, if a supervisor made the decision.
	Proof []byte `json:"proof,omitempty"`
	Err   error  `json:"-"` // the cause, for logs only
}

// Errorf returns an Error. A %w in format sets its cause, whose text is then shown, so it must be safe to show.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), Err: errors.Unwrap(err)}
}

// WithHint sets the hint and returns e.
func (e *Error) WithHint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// Error returns the message. It omits the code, which is shown separately.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Retryable reports whether the same request may succeed later.
func (e *Error) Retryable() bool { return e.Code.Info().Retryable }

// Decided reports whether the error is a decision about the request. Otherwise no decision was possible yet.
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

// AsError returns the first *Error in err's chain, or nil if err is nil. It converts any other error to INTERNAL with
// err as the cause. The message omits the text of err, which may be confidential.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Code: CodeInternal, Message: "internal error", Err: err}
}

// CodeOf returns the code of err: "" for nil, and INTERNAL for an error without a code.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	return AsError(err).Code
}

package link

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"writ"
)

// Path is the path of the link endpoint, below the coordinator's URL.
const Path = "/v1/link"

// Limits of a link. Both ends enforce them.
const (
	// MaxFrame limits an encoded frame, in bytes. A larger request or answer is refused with TOO_LARGE. A larger event
	// can never be sent, so code that creates events must stay well below the limit.
	MaxFrame = 1 << 20
	// Window limits the unacknowledged events.
	Window = 256

	maxGreeting = 64 << 10 // frames before the other side is authenticated
	maxBatch    = 256 << 10
	maxID       = 128
)

// Timeouts of a link.
const (
	greetWithin = 15 * time.Second // for each step of the handshake
	pingEvery   = 20 * time.Second // three pings fit into readWithin
	readWithin  = 60 * time.Second // without any frame; then the session ends
	writeWithin = 30 * time.Second // without progress of a write; then the session ends
)

// Types of frames. Unknown types are ignored.
const (
	typeChallenge = "challenge" // coordinator: nonce
	typeHello     = "hello"     // supervisor: hello
	typeWelcome   = "welcome"   // coordinator: welcome
	typeRefused   = "refused"   // coordinator, instead of welcome: error
	typeRequest   = "req"       // both: id, verb, params
	typeResponse  = "res"       // both: id, ok, result or error
	typeEvent     = "event"     // supervisor: journal, and consecutive events of it
	typeAck       = "ack"       // coordinator: seq of the last event that it stored
	typeFault     = "fault"     // supervisor: detail, why the datacenter cannot continue; empty once it can
	typePing      = "ping"
	typePong      = "pong"
)

// frame is one message of a link. Its type determines which fields are used.
type frame struct {
	size int // encoded size of a received frame

	Type    string          `json:"type"`
	Nonce   []byte          `json:"nonce,omitempty"`
	Hello   *Hello          `json:"hello,omitempty"`
	Welcome *Welcome        `json:"welcome,omitempty"`
	ID      string          `json:"id,omitempty"`
	Verb    Verb            `json:"verb,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Detail  string          `json:"detail,omitempty"`
	OK      bool            `json:"ok,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *failure        `json:"error,omitempty"`
	Journal string          `json:"journal,omitempty"`
	Events  json.RawMessage `json:"events,omitempty"` // events of Journal; see decodeEvents
	Seq     int64           `json:"seq,omitempty"`
}

// failure is an error on the wire. Retryable is for receivers that do not know the code.
type failure struct {
	Code      writ.Code `json:"code"`
	Message   string    `json:"message"`
	Hint      string    `json:"hint,omitempty"`
	Retryable bool      `json:"retryable"`
	Proof     []byte    `json:"proof,omitempty"`
}

func failureOf(err error) *failure {
	e := writ.AsError(err)
	return &failure{Code: e.Code, Message: e.Message, Hint: e.Hint, Retryable: e.Retryable(), Proof: e.Proof}
}

// asError converts the failure to an error of this side. INTERNAL of the other side becomes EXEC_ERROR, because it is
// not a defect of this side. An unknown code of a newer version becomes EXEC_ERROR, too. f may be nil, because the
// other side may omit it.
func (f *failure) asError(other, request string) *writ.Error {
	switch {
	case f == nil:
		return writ.Errorf(writ.CodeExecError, "%s sent neither a result nor an error for request %s", other, request).
			WithHint("run the same version of writ on both sides")
	case f.Code == writ.CodeInternal:
		return writ.Errorf(writ.CodeExecError, "%s failed; its log has the cause, under request %s", other, request)
	case f.Code.Info().Code != f.Code:
		return &writ.Error{
			Code: writ.CodeExecError, Message: fmt.Sprintf("%s (%s)", f.Message, f.Code), Hint: f.Hint, Proof: f.Proof,
		}
	default:
		return &writ.Error{Code: f.Code, Message: f.Message, Hint: f.Hint, Proof: f.Proof}
	}
}

// encode returns the bytes of f, or TOO_LARGE.
func (f *frame) encode() ([]byte, error) {
	data, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("encode %s frame: %w", f.Type, err)
	}
	return data, checkFrame(f.Type, data)
}

// bytesMark separates a request from the bytes that it carries, in a binary message. JSON contains no zero byte.
const bytesMark = 0

// byteParams are parameters that consist of a text. A peer that reads binary messages gets them as bytes: encoding and
// decoding a large text as JSON takes longer than its verification.
type byteParams interface{ bytes() []byte }

// fromBytes decodes byteParams. It copies the text.
type fromBytes interface{ setBytes(text []byte) }

// encodeWith returns the binary message of a request that carries text, or TOO_LARGE.
func (f *frame) encodeWith(text []byte) ([]byte, error) {
	head, err := f.encode()
	if err != nil {
		return nil, err
	}
	data := append(make([]byte, 0, len(head)+1+len(text)), head...)
	data = append(append(data, bytesMark), text...)
	return data, checkFrame(f.Type, data)
}

// decodeBinary decodes and validates a binary message. Its parameters begin with bytesMark; see Decode.
func decodeBinary(data []byte) (*frame, error) {
	at := bytes.IndexByte(data, bytesMark)
	if at < 0 {
		return nil, protocolError{"a binary message carries no bytes"}
	}
	f, err := decodeFrame(data[:at])
	if err != nil {
		return nil, err
	}
	if f.Type != typeRequest || f.Params != nil {
		return nil, protocolError{"a " + shortened(f.Type) + " frame carries bytes"}
	}
	f.Params = data[at:]
	return f, nil
}

// checkFrame returns TOO_LARGE for an encoded frame that exceeds MaxFrame.
func checkFrame(kind string, data []byte) error {
	if len(data) > MaxFrame {
		return writ.Errorf(writ.CodeTooLarge, "the %s frame has %d bytes; the limit is %d", kind, len(data), MaxFrame)
	}
	return nil
}

// decodeFrame decodes and validates a frame. Its type may be unknown.
func decodeFrame(data []byte) (*frame, error) {
	f := &frame{}
	if err := decode(data, f, false); err != nil {
		return nil, protocolError{fmt.Sprintf("a frame is invalid JSON: %v", err)}
	}
	switch f.Type {
	case "":
		return nil, protocolError{"a frame has no type"}
	case typeRequest, typeResponse:
		if f.ID == "" || len(f.ID) > maxID {
			return nil, protocolError{
				fmt.Sprintf("a %s frame has an id of %d bytes; it needs 1 to %d", f.Type, len(f.ID), maxID),
			}
		}
	case typeChallenge:
		if len(f.Nonce) < 16 {
			return nil, protocolError{"a challenge has a nonce of less than 16 bytes"}
		}
	case typeHello:
		if f.Hello == nil {
			return nil, protocolError{"a hello frame is empty"}
		}
	case typeWelcome:
		if f.Welcome == nil {
			return nil, protocolError{"a welcome frame is empty"}
		}
	}
	return f, nil
}

// protocolError describes a protocol violation of the other side. It ends the session.
type protocolError struct{ what string }

func (e protocolError) Error() string { return "link protocol violated: " + e.what }

// errCut is the error of requests that were open when their session ended.
var errCut = errors.New("the link was cut")

package link

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"writ"
)

// Path is where a coordinator listens for links, below its URL.
const Path = "/v1/link"

// Limits of a link. Both ends keep them.
const (
	// MaxFrame bounds an encoded frame, in bytes. A request or answer that does not fit is refused with TOO_LARGE; an event that
	// does not fit cannot be sent at all, so what makes events must stay well below.
	MaxFrame = 1 << 20
	// Window is how many events may be on their way without an ack.
	Window = 256

	maxGreeting = 64 << 10 // frames before the other side has proved who it is
	maxBatch    = 256 << 10
	maxID       = 128
)

// Times of a link.
const (
	greetWithin = 15 * time.Second // for each step of the handshake
	pingEvery   = 20 * time.Second // so that three pings fit into readWithin
	readWithin  = 60 * time.Second // without any frame the other side is given up
	writeWithin = 30 * time.Second // a peer that takes no bytes for so long is given up
)

// The types of frames. A type that an end does not know is passed over.
const (
	typeChallenge = "challenge" // coordinator: nonce
	typeHello     = "hello"     // supervisor: hello
	typeWelcome   = "welcome"   // coordinator: welcome
	typeRefused   = "refused"   // coordinator, instead of welcome: error
	typeRequest   = "req"       // both: id, verb, params
	typeProgress  = "progress"  // both: id, stage, detail
	typeResponse  = "res"       // both: id, ok, result or error
	typeEvent     = "event"     // supervisor: journal, and consecutive events of it
	typeAck       = "ack"       // coordinator: seq of the last event that it stored
	typeFault     = "fault"     // supervisor: detail, what keeps the datacenter from going on; nothing when that is over
	typePing      = "ping"
	typePong      = "pong"
)

// frame is one message of a link. Which fields count depends on its type.
type frame struct {
	size int // as it was read

	Type    string          `json:"type"`
	Nonce   []byte          `json:"nonce,omitempty"`
	Hello   *Hello          `json:"hello,omitempty"`
	Welcome *Welcome        `json:"welcome,omitempty"`
	ID      string          `json:"id,omitempty"`
	Verb    Verb            `json:"verb,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Stage   string          `json:"stage,omitempty"`
	Detail  string          `json:"detail,omitempty"`
	OK      bool            `json:"ok,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *failure        `json:"error,omitempty"`
	Journal string          `json:"journal,omitempty"`
	Events  json.RawMessage `json:"events,omitempty"` // events of Journal; see decodeEvents
	Seq     int64           `json:"seq,omitempty"`
}

// failure is an error on the wire. Retryable is there for ends that do not know the code.
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

// asError returns the failure as an error of this side. INTERNAL of the other side is not INTERNAL here, and neither is a code
// that only a newer version knows: both say that the other side could not do it.
func (f *failure) asError(other, request string) *writ.Error {
	switch {
	case f == nil || f.Code == writ.CodeInternal:
		return writ.Errorf(writ.CodeExecError, "%s failed; its log says why, under request %s", other, request)
	case f.Code.Info().Code != f.Code:
		return &writ.Error{Code: writ.CodeExecError, Message: fmt.Sprintf("%s (%s)", f.Message, f.Code), Hint: f.Hint, Proof: f.Proof}
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

// checkFrame returns TOO_LARGE for an encoded frame that no link carries.
func checkFrame(kind string, data []byte) error {
	if len(data) > MaxFrame {
		return writ.Errorf(writ.CodeTooLarge, "the %s frame has %d bytes; a link carries at most %d at once", kind, len(data), MaxFrame)
	}
	return nil
}

// decodeFrame reads a frame of a type that may be unknown.
func decodeFrame(data []byte) (*frame, error) {
	f := &frame{}
	if err := decode(data, f, false); err != nil {
		return nil, protocolError{fmt.Sprintf("a frame is no JSON of a frame: %v", err)}
	}
	switch f.Type {
	case "":
		return nil, protocolError{"a frame has no type"}
	case typeRequest, typeProgress, typeResponse:
		if f.ID == "" || len(f.ID) > maxID {
			return nil, protocolError{fmt.Sprintf("a %s frame has an id of %d bytes; it needs 1 to %d", f.Type, len(f.ID), maxID)}
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

// protocolError says how the other side broke the rules of the link. It ends the session.
type protocolError struct{ what string }

func (e protocolError) Error() string { return "protocol of the link broken: " + e.what }

// errCut ends requests that were open when their session ended.
var errCut = errors.New("the link was cut")

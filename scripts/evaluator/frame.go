package evaluator

import (
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"writ"
	"writ/internal/cbor"
	"writ/scripts"
)

// A frame is a length of four bytes, in big-endian order, and a CBOR body of that length. The child writes a greeting
// first. Then the parent writes lists of requests, and the child answers each request with one frame. The child reads a
// whole list before it answers, so parent and child never wait for each other. Both ends are the same program, so the
// CBOR has the fields in order, without names. The parent omits data that the child should have: the bundle, the inputs
// and most of the journal. A child that lacks such data reports this in its answer, and gets a complete request.

// maxFrame limits a frame: a bundle, and a journal of scripts.MaxJournal with the overhead of the encoding and the
// errors of scripts.MaxCalls calls. Package workflow limits the sizes of errors.
const maxFrame = 40 << 20

const frameHead = 4

// greeting is the first frame of a child, written when it is confined.
type greeting struct {
	Layers Layers `json:"layers"`
}

// request asks for a pass, a plan, or the compilation of a program.
type request struct {
	_       struct{}        `cbor:",toarray"`
	Program writ.Digest     // of the bundle
	Bundle  *scripts.Bundle // nil if the child should have the program
	Run     writ.RunID
	Inputs  *scripts.Inputs // nil if they equal the inputs of the base of Journal
	Logged  int             // of the inputs; it is separate because it changes between the passes of a run
	Journal difference
	Plan    bool // requires Bundle and Inputs only
	Compile bool // requires Bundle only
	Yields  bool // the request stops after a quantum of CPU time
}

// answer is the result of a request.
type answer struct {
	_       struct{}         `cbor:",toarray"`
	Outcome *scripts.Outcome // nil if the child lacks omitted data: repeat the request with all of it
	Plan    *scripts.Plan
	Took    time.Duration // CPU time, as reported by the child
	Compile time.Duration // the part of Took for compiling the program; 0 if it was compiled before
	Stopped bool          // the request used up its quantum and had no effect
	Retire  bool          // the child has used its CPU time and ends after this answer, the last of its list
}

// appendFrame encodes v as a frame.
func appendFrame(v any) ([]byte, error) {
	body, err := cbor.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode frame: %w", err)
	}
	if len(body) > maxFrame {
		return nil, errFrameTooBig
	}
	frame := make([]byte, frameHead, frameHead+len(body))
	binary.BigEndian.PutUint32(frame, uint32(len(body)))
	return append(frame, body...), nil
}

var errFrameTooBig = writ.Errorf(writ.CodeScriptLimit, "a pass needs more than %d bytes of journal and script",
	maxFrame)

// frameSize decodes the length of a frame's body from its head.
func frameSize(head []byte) (int, error) {
	size := binary.BigEndian.Uint32(head)
	if size > maxFrame {
		return 0, fmt.Errorf("read frame: %d bytes are too many", size)
	}
	return int(size), nil
}

// readFrame reads one frame into v. It returns io.EOF at the end of the stream between two frames.
func readFrame(r io.Reader, v any) error {
	var head [frameHead]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	size, err := frameSize(head[:])
	if err != nil {
		return err
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(r, body); err != nil {
		return fmt.Errorf("read frame: %w", err)
	}
	if err := cbor.Decode(body, v); err != nil {
		return fmt.Errorf("read frame: %w", err)
	}
	return nil
}

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

// A frame is a length of four bytes, big end first, and so many bytes of CBOR. The child greets with one; then the parent
// writes lists of requests, and the child answers each request with one frame. It has read a list before it answers, so nobody waits for
// somebody who waits. Both ends are the same program, so that records need no names: their fields stand in their order. What the parent
// believes the child to have, the bundle, the inputs and most of the journal, it leaves out; a child that does not have it answers so, and is
// told all of it.

// maxFrame bounds a frame: a bundle, and a journal of scripts.MaxJournal with what the encoding adds.
const maxFrame = 16 << 20

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
	Inputs  *scripts.Inputs // nil if they are those of the journal that Journal builds on
	Logged  int             // of the inputs: it changes with the passes of a run, they do not
	Journal difference
	Plan    bool // it needs Bundle and Inputs only
	Compile bool // it needs Bundle only
	Yields  bool // it is stopped after a quantum of CPU time
}

// answer is what came of a request.
type answer struct {
	_       struct{}         `cbor:",toarray"`
	Outcome *scripts.Outcome // nil if the child lacks what was left out: ask again with all of it
	Plan    *scripts.Plan
	Took    time.Duration // CPU time, as the child reports it
	Compile time.Duration // the part of it that compiling the program took; 0 if the child had it compiled
	Stopped bool          // the request used up its quantum and had no effect
	Retire  bool          // the child has worked long enough and ends after this answer, the last of its list
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

var errFrameTooBig = writ.Errorf(writ.CodeScriptLimit, "a pass needs more than %d bytes of journal and script", maxFrame)

// frameSize reads the length of a frame's body from its head.
func frameSize(head []byte) (int, error) {
	size := binary.BigEndian.Uint32(head)
	if size > maxFrame {
		return 0, fmt.Errorf("read frame: %d bytes are too many", size)
	}
	return int(size), nil
}

// readFrame reads one frame into v. The end of the stream between two frames is io.EOF.
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

package stream

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"writ"
	"writ/coord/access"
	"writ/coord/api"
	"writ/internal/limit"
	"writ/ledger"
)

const (
	heartbeat = 15 * time.Second
	// A reader that accepts no bytes for writeWithin is disconnected; it can resume at its position.
	writeWithin   = 10 * time.Second
	eventsAtOnce  = 200
	retryAfterCut = "retry: 1000\n\n" // milliseconds, for browsers
	// After new events, a stream pauses for breath times the number of streams of its group: 125 ms with 500 streams. The
	// streams of a group together therefore wake up at most 4,000 times a second. Each wake-up takes about 20 µs, with
	// the system call for its events.
	breath = 250 * time.Microsecond
)

// Stream is an open event stream. Its only state is its position: it reads events at the speed of its reader, from the
// tail that all streams share or, if the reader is too far behind, from the ledger.
type Stream struct {
	server *Server
	ctx    context.Context
	filter ledger.EventFilter
	after  int64
	reset  bool // the ledger no longer has the events that the reader asked for
}

// VisitWatchResponse streams the events as the response.
func (s *Stream) VisitWatchResponse(w http.ResponseWriter) error { return s.serve(w) }

// VisitWatchRunResponse streams the events of a run as the response.
func (s *Stream) VisitWatchRunResponse(w http.ResponseWriter) error { return s.serve(w) }

// serve streams until the reader disconnects or is too slow, or the coordinator stops. An error after the first byte
// can only end the stream.
func (s *Stream) serve(w http.ResponseWriter) error {
	remote := access.RequestOf(s.ctx).Remote
	leave, ok := s.server.Streams.Enter(remote)
	if !ok {
		// No number here: it would reveal the streams of other people.
		return writ.Errorf(writ.CodeTooManyWatchers, "no more event streams for %s: too many are open",
			limit.NetworkOf(remote))
	}
	defer leave()
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // otherwise a proxy buffers events
	w.WriteHeader(http.StatusOK)
	if err := s.flow(w); err != nil && s.ctx.Err() == nil {
		s.server.Log.DebugContext(s.ctx, "event stream cut off", "request", access.RequestOf(s.ctx).ID, "after", s.after,
			"err", err)
	}
	return nil
}

func (s *Stream) flow(w http.ResponseWriter) error {
	group, release := s.server.tail.watch(s.filter.Run)
	defer release()
	control := http.NewResponseController(w)
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	_ = control.SetWriteDeadline(time.Now().Add(writeWithin))
	if _, err := fmt.Fprint(w, retryAfterCut); err != nil {
		return err
	}
	if s.reset {
		if _, err := (&api.Message{ID: s.after, Reset: true}).WriteTo(w); err != nil {
			return err
		}
	}
	if err := control.Flush(); err != nil {
		return err
	}
	for {
		grown, changed := group.grown.Next(), s.server.Rights.Next()
		more, err := s.write(w, control)
		if err != nil {
			return err
		}
		if more {
			continue
		}
		s.pause(time.Duration(group.streams.Load()) * breath) // also if the filter selected no event
		select {
		case <-grown:
		case <-changed: // the new roster may revoke the reader's rights
		case <-beat.C:
			_ = control.SetWriteDeadline(time.Now().Add(writeWithin))
			if _, err := fmt.Fprint(w, ": still here\n\n"); err != nil {
				return err
			}
			if err := control.Flush(); err != nil {
				return err
			}
		case <-s.ctx.Done():
			return nil
		case <-s.server.Stopping:
			return nil
		}
	}
}

// pause waits for d, or until the stream ends.
func (s *Stream) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.ctx.Done():
	case <-s.server.Stopping:
	}
}

// write writes the available events, and reports whether further events may be available at once.
func (s *Stream) write(w http.ResponseWriter, control *http.ResponseController) (more bool, err error) {
	notes, upTo, ok := s.server.tail.after(s.after, s.filter, eventsAtOnce)
	more = len(notes) == eventsAtOnce
	if !ok {
		if notes, upTo, more, err = s.catchUp(upTo); err != nil {
			return false, err
		}
	}
	if err := s.server.Still(s.ctx); err != nil { // after the read: events after the end of a session must not be sent
		return false, err
	}
	s.after = max(s.after, upTo) // events that the filter skipped are not read again
	if len(notes) == 0 {
		return false, nil
	}
	_ = control.SetWriteDeadline(time.Now().Add(writeWithin))
	if err := writeTogether(w, notes); err != nil {
		return false, err
	}
	return more, control.Flush()
}

// partBytes limits a write of several messages. net/http needs one system call for each write above its buffer of
// 4 KiB, and otherwise one for each 4 KiB.
const partBytes = 32 << 10

// parts holds free buffers of partBytes.
var parts = sync.Pool{New: func() any { return new([partBytes]byte) }}

// writeTogether writes messages in parts of up to partBytes, or a single larger message.
func writeTogether(w io.Writer, notes []note) error {
	buffer := parts.Get().(*[partBytes]byte)
	defer parts.Put(buffer)
	part := buffer[:0]
	for _, n := range notes {
		if len(part)+len(n.text) > partBytes && len(part) > 0 {
			if _, err := w.Write(part); err != nil {
				return err
			}
			part = part[:0]
		}
		if len(n.text) > partBytes {
			if _, err := w.Write(n.text); err != nil {
				return err
			}
			continue
		}
		part = append(part, n.text...)
	}
	if len(part) == 0 {
		return nil
	}
	_, err := w.Write(part)
	return err
}

// catchUp reads events from the ledger that the tail has dropped. It returns all events up to upTo, and whether more
// may follow. tailTo is the newest event that the tail had before this read.
func (s *Stream) catchUp(tailTo int64) (notes []note, upTo int64, more bool, err error) {
	events, more, err := s.server.Ledger.EncodedEvents(s.ctx, s.after, s.filter, eventsAtOnce)
	if err != nil {
		return nil, 0, false, err
	}
	notes = make([]note, len(events))
	for i, e := range events {
		if notes[i], err = noteOf(e); err != nil {
			return nil, 0, false, err
		}
		upTo = e.ID
	}
	if !more {
		upTo = max(upTo, tailTo)
	}
	return notes, upTo, more, nil
}

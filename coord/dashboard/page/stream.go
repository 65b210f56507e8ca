package page

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"writ"
	"writ/coord/dashboard/markup"
)

const (
	frameEvery = time.Second
	// heartbeat is the longest silence of a stream. After four missed heartbeats, dashboard.js considers the
	// coordinator frozen or disconnected, and shows that within 10 s. A datacenter that does not answer delays a
	// heartbeat by a few seconds only.
	heartbeat = 2 * time.Second
	// A reader that accepts no bytes for writeWithin is disconnected. It receives the missed changes when it reconnects.
	writeWithin = 10 * time.Second
)

// frame holds the changes of a page.
type frame struct {
	Parts []changed `json:"parts"`
}

// changed holds the changes of a part.
type changed struct {
	ID     string            `json:"id"`
	Keys   []string          `json:"keys,omitempty"`   // all keys in order, if the keys or their order changed
	Gone   bool              `json:"gone,omitempty"`   // the part is empty now
	Pieces map[string]string `json:"pieces,omitempty"` // HTML of new or changed pieces
}

// beat is sent if a page has no changes. It is an event, because browsers do not pass comments to scripts.
const beat = "event: beat\ndata: {}\n\n"

// stream serves the live updates of a page, at most one frame per second. The id of a frame is the newest event that it
// includes. A client that reconnects with the id of the newest event receives only the changes that do not depend on
// events.
func (s *Server) stream(v view) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		leave, ok := s.streams.Enter(r.RemoteAddr)
		if !ok {
			s.fail(w, r, writ.Errorf(writ.CodeTooManyWatchers, "no more live pages for this address: too many are open"))
			return // no number here: it would reveal the streams of other people
		}
		defer leave()
		open := &stream{
			server: s, view: v, r: r, w: w, control: http.NewResponseController(w), after: seenBy(r),
			all: s.Reader(r.Context()).All,
		}
		f, id, err := open.next(r.Context())
		if err != nil {
			s.fail(w, r, err)
			return
		}
		_ = open.control.SetReadDeadline(time.Time{}) // otherwise the deadline for the request body would end the stream
		h := w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("X-Accel-Buffering", "no") // otherwise a proxy buffers frames
		w.WriteHeader(http.StatusOK)
		if err := open.flow(r.Context(), f, id); err != nil && r.Context().Err() == nil {
			s.Log.DebugContext(r.Context(), "page stream ended", "path", r.URL.Path, "err", err)
		}
	}
}

// seenBy returns the newest event that the client has seen, -1 if it did not send one.
func seenBy(r *http.Request) int64 {
	for _, text := range []string{r.Header.Get("Last-Event-ID"), r.URL.Query().Get(afterParam)} {
		if id, err := strconv.ParseInt(text, 10, 64); err == nil {
			return id
		}
	}
	return -1
}

// stream is the stream of one page with live updates.
type stream struct {
	server  *Server
	view    view
	r       *http.Request
	w       http.ResponseWriter
	control *http.ResponseController
	all     bool               // the reader reads all projects
	after   int64              // newest event that was included
	shown   map[string][]piece // the pieces that the client has, by part
}

// flow writes frames until the client disconnects or the coordinator stops. After the first byte an error can only end
// the stream.
func (s *stream) flow(ctx context.Context, f frame, id int64) error {
	if err := s.write("retry: 2000\n\n"); err != nil {
		return err
	}
	wrote := time.Now()
	for {
		text := ""
		switch {
		case len(f.Parts) > 0 || id != s.after && s.all: // an empty frame would reveal events of other projects
			data, err := json.Marshal(f)
			if err != nil {
				return fmt.Errorf("encode frame: %w", err)
			}
			text = fmt.Sprintf("id: %d\ndata: %s\n\n", id, data)
		case time.Since(wrote) >= heartbeat:
			text = beat
		}
		if text != "" {
			if err := s.write(text); err != nil {
				return err
			}
			wrote = time.Now()
		}
		s.after = id
		news := s.server.News()
		if !s.wait(ctx, nil) { // limits the rate to one frame per second
			return nil
		}
		if s.all && !s.wait(ctx, news) { // the next frame is sent at once when the ledger changes
			// Readers of some projects get frames at fixed intervals, so their timing does not reveal events of other
			// projects.
			return nil
		}
		var err error
		if f, id, err = s.next(ctx); err != nil {
			return err
		}
	}
}

// wait waits for the interval of frames, or until wake is closed. It returns false if the stream ends.
func (s *stream) wait(ctx context.Context, wake <-chan struct{}) bool {
	timer := time.NewTimer(frameEvery)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-ctx.Done():
		return false
	case <-s.server.Stopping:
		return false
	}
	return true
}

func (s *stream) write(text string) error {
	_ = s.control.SetWriteDeadline(time.Now().Add(writeWithin)) // not supported by every ResponseWriter in tests
	if _, err := fmt.Fprint(s.w, text); err != nil {
		return err
	}
	return s.control.Flush()
}

// next renders the page again and returns the changes.
func (s *stream) next(ctx context.Context) (f frame, id int64, err error) {
	_, id, err = s.server.Events(ctx) // before the page is built, so that later events are sent again and not lost
	if err != nil {
		return f, 0, err
	}
	first := s.shown == nil
	p, err := s.view(ctx, s.r, !first && id == s.after)
	if err == nil && s.server.Still != nil {
		err = s.server.Still(ctx) // after the view has read its data: changes after the end of a session must not be sent
	}
	if err != nil {
		return f, 0, err
	}
	if first {
		s.shown = map[string][]piece{}
	}
	for _, part := range p.parts {
		known := first && part.OfLedger && id == s.after // unchanged since the page was loaded
		if c, any := compare(part, s.shown[part.ID], first); any && !known {
			f.Parts = append(f.Parts, c)
		}
		s.shown[part.ID] = part.pieces
	}
	return f, id, nil
}

// compare returns the changes of a part since `shown`, and whether there are any. If first is set, there always are.
func compare(now Part, shown []piece, first bool) (c changed, any bool) {
	c = changed{ID: now.ID, Pieces: map[string]string{}}
	before := make(map[string]markup.HTML, len(shown))
	for _, p := range shown {
		before[p.key] = p.html
	}
	for _, p := range now.pieces {
		if html, known := before[p.key]; !known || html != p.html {
			c.Pieces[p.key] = p.html.String()
		}
	}
	same := slices.EqualFunc(now.pieces, shown, func(a, b piece) bool { return a.key == b.key })
	if first || !same {
		c.Keys = make([]string, len(now.pieces))
		for i, p := range now.pieces {
			c.Keys[i] = p.key
		}
		c.Gone = len(now.pieces) == 0
	}
	return c, first || !same || len(c.Pieces) > 0
}

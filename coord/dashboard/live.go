package dashboard

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
	// heartbeat is how long a stream says nothing. dashboard.js takes four of them without a word for a coordinator that is frozen or cut off: it
	// shows that within 10 s, while a datacenter that does not answer delays a beat by some seconds only.
	heartbeat   = 2 * time.Second
	writeWithin = 10 * time.Second // a reader that takes no bytes for so long is cut off; it comes back and misses nothing
)

// frame is what is new on a page.
type frame struct {
	Parts []changed `json:"parts"`
}

// changed is what is new in a part.
type changed struct {
	ID     string            `json:"id"`
	Keys   []string          `json:"keys,omitempty"`   // all keys in their order, if they are others or in another order
	Gone   bool              `json:"gone,omitempty"`   // the part is empty now
	Pieces map[string]string `json:"pieces,omitempty"` // the HTML of pieces that are new or say something else
}

// beat is what a stream says when there is nothing new. It is an event, as browsers tell scripts nothing of comments.
const beat = "event: beat\ndata: {}\n\n"

// stream answers with the news of a page, at most one frame a second. A frame has the id of the newest event that it knows; who comes
// back with an id that is still the newest is told only what does not follow from events.
func (d *Dashboard) stream(v view) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		leave, ok := d.streams.Enter(r.RemoteAddr)
		if !ok {
			d.fail(w, r, writ.Errorf(writ.CodeTooManyWatchers, "too many pages are kept up to date already, and there are no more for this address"))
			return // how many there are is a number of other people too
		}
		defer leave()
		s := &stream{d: d, view: v, r: r, w: w, control: http.NewResponseController(w), after: seenBy(r), all: d.Reader(r.Context()).All}
		f, id, err := s.next(r.Context())
		if err != nil {
			d.fail(w, r, err)
			return
		}
		_ = s.control.SetReadDeadline(time.Time{}) // one that bounds the reading of a body would end the stream
		h := w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("X-Accel-Buffering", "no") // or a proxy keeps frames to itself
		w.WriteHeader(http.StatusOK)
		if err := s.flow(r.Context(), f, id); err != nil && r.Context().Err() == nil {
			d.Log.DebugContext(r.Context(), "page stream ended", "path", r.URL.Path, "err", err)
		}
	}
}

// seenBy returns the newest event that the reader has seen, -1 if it does not say.
func seenBy(r *http.Request) int64 {
	for _, text := range []string{r.Header.Get("Last-Event-ID"), r.URL.Query().Get(afterParam)} {
		if id, err := strconv.ParseInt(text, 10, 64); err == nil {
			return id
		}
	}
	return -1
}

// stream is one page that is kept up to date.
type stream struct {
	d       *Dashboard
	view    view
	r       *http.Request
	w       http.ResponseWriter
	control *http.ResponseController
	all     bool               // the reader sees all projects
	after   int64              // the newest event that was looked at for the reader
	shown   map[string][]piece // by part, what the reader has
}

// flow writes frames until the reader goes or the coordinator stops. After the first byte an error can only end the stream.
func (s *stream) flow(ctx context.Context, f frame, id int64) error {
	if err := s.write("retry: 2000\n\n"); err != nil {
		return err
	}
	wrote := time.Now()
	for {
		text := ""
		switch {
		case len(f.Parts) > 0 || id != s.after && s.all: // an empty frame would tell others that something happened elsewhere
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
		news := s.d.LiveView.News()
		if !s.wait(ctx, nil) { // not more than one frame a second …
			return nil
		}
		if s.all && !s.wait(ctx, news) { // … and one at once when something happens after a quiet second
			return nil // for others each second is the same: when they are told something says nothing of what happens elsewhere
		}
		var err error
		if f, id, err = s.next(ctx); err != nil {
			return err
		}
	}
}

// wait waits for the interval of frames, or until wake is closed. It reports whether the stream goes on.
func (s *stream) wait(ctx context.Context, wake <-chan struct{}) bool {
	timer := time.NewTimer(frameEvery)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-ctx.Done():
		return false
	case <-s.d.Stopping:
		return false
	}
	return true
}

func (s *stream) write(text string) error {
	_ = s.control.SetWriteDeadline(time.Now().Add(writeWithin)) // not every ResponseWriter of a test can
	if _, err := fmt.Fprint(s.w, text); err != nil {
		return err
	}
	return s.control.Flush()
}

// next looks at the page again and returns what is new on it.
func (s *stream) next(ctx context.Context) (f frame, id int64, err error) {
	_, id, err = s.d.Ledger.EventRange(ctx) // first: what comes meanwhile is told again, not left out
	if err != nil {
		return f, 0, err
	}
	first := s.shown == nil
	p, err := s.view(ctx, s.r, !first && id == s.after)
	if err == nil && s.d.Still != nil {
		err = s.d.Still(ctx) // last: what happened after the end of a session must not be on the page
	}
	if err != nil {
		return f, 0, err
	}
	if first {
		s.shown = map[string][]piece{}
	}
	for _, part := range p.Parts {
		known := first && part.ofLedger && id == s.after // as the page was loaded, so it still is
		if c, any := compare(part, s.shown[part.id], first); any && !known {
			f.Parts = append(f.Parts, c)
		}
		s.shown[part.id] = part.pieces
	}
	return f, id, nil
}

// compare returns what is new in a part since it was shown. Of one that was never shown everything is.
func compare(now part, shown []piece, first bool) (c changed, any bool) {
	c = changed{ID: now.id, Pieces: map[string]string{}}
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

package image

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"writ"
)

// A server that stalls costs a call the time of one attempt, whether it is silent or very slow. A node fetches only a
// few images at a time, and each stalled fetch occupies a slot.
//
// Promise: Limits and shares: An image server that freezes or trickles delays a call by one minute.
// How: Below 64 KiB per minute the call ends as `UNREACHABLE` and keeps the received part; after a broken connection
// it retries at once.
func TestStalledServerIsAskedOnce(t *testing.T) {
	text := bytes.Repeat([]byte("0123456789abcdef"), 1<<14)
	for name, serve := range map[string]func(w http.ResponseWriter, r *http.Request){
		"it is silent": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"it begins and is silent": func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write(text[:1000])
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		},
		"it drips": func(w http.ResponseWriter, r *http.Request) {
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for i := range text {
				select {
				case <-tick.C:
				case <-r.Context().Done():
					return
				}
				_, _ = w.Write(text[i : i+1])
				_ = http.NewResponseController(w).Flush()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newImageServer(t, nil)
			s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				s.asks.Add(1)
				serve(w, r)
			})
			b := newFixture(t, s)
			b.stall = time.Second
			_, err := b.fetch(t.Context(), "a", map[string]any{"url": s.URL + "/a", "sha256": sum(text)})
			if writ.CodeOf(err) != writ.CodeUnreachable || !strings.Contains(writ.AsError(err).Hint, "the server answers") {
				t.Errorf("%v", err)
			}
			if n := s.asks.Load(); n > 1 {
				t.Errorf("it was asked %d times", n)
			}
		})
	}
}

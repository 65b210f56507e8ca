package client

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

type answering func(r *http.Request) *http.Response

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) { return a(r), nil }

// Promise: Load and attackers: A client retries a rate-limited request ten times within the time of its command.
// How: The answer has `Retry-After`.
func TestTheClientRetriesAfterRetryAfter(t *testing.T) {
	for _, tt := range []struct {
		name, after string
		busy        int           // number of 429 responses before success
		within      time.Duration // deadline of the request
		fewest      int           // minimum attempts
		most        int
		status      int
	}{
		{"at once", "1", 0, time.Hour, 1, 1, 200},
		{"twice", "1", 2, time.Hour, 3, 3, 200},
		{"for ever", "1", 1000, time.Hour, 10, 10, 429},
		{"until its time is over", "2", 1000, 5900 * time.Millisecond, 2, 3, 429}, // each wait lasts 2 to 4 seconds
		{"nobody says when", "", 1, time.Hour, 1, 1, 429},
		{"in an hour", "3600", 1, time.Hour, 1, 1, 429},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				attempts := 0
				p := patience{answering(func(r *http.Request) *http.Response {
					if body, err := io.ReadAll(r.Body); err != nil || string(body) != "signed" {
						t.Errorf("it sent %q, %v", body, err)
					}
					status := http.StatusOK
					if attempts++; attempts <= tt.busy {
						status = http.StatusTooManyRequests
					}
					return &http.Response{StatusCode: status, Header: http.Header{"Retry-After": {tt.after}}, Body: http.NoBody}
				})}
				ctx, cancel := context.WithTimeout(t.Context(), tt.within)
				defer cancel()
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://coordinator.test/", strings.NewReader("signed"))
				if err != nil {
					t.Fatal(err)
				}
				response, err := p.RoundTrip(r)
				if err != nil {
					t.Fatal(err)
				}
				if response.StatusCode != tt.status || attempts < tt.fewest || attempts > tt.most {
					t.Errorf("status %d after %d attempts; want %d after %d to %d", response.StatusCode, attempts, tt.status, tt.fewest, tt.most)
				}
			})
		})
	}
}

package client

import (
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"writ/internal/sleep"
)

// patience is a transport that retries after 429 responses with Retry-After, within the deadline of the request.
type patience struct{ http.RoundTripper }

const (
	maxAttempts  = 10
	maxRetryWait = 10 * time.Second // a longer Retry-After is left to the user
)

// RoundTrip implements http.RoundTripper.
func (p patience) RoundTrip(r *http.Request) (*http.Response, error) {
	for attempt := 1; ; attempt++ {
		response, err := p.RoundTripper.RoundTrip(r)
		if err != nil || response.StatusCode != http.StatusTooManyRequests || attempt == maxAttempts {
			return response, err
		}
		seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
		wait := time.Duration(seconds) * time.Second
		if err != nil || wait <= 0 || wait > maxRetryWait || r.Body != nil && r.GetBody == nil {
			return response, nil
		}
		wait += rand.N(wait) // jitter, so that rejected clients do not retry together
		if end, ok := r.Context().Deadline(); ok && time.Until(end) < wait {
			return response, nil
		}
		_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 1<<20))
		_ = response.Body.Close()
		if err := sleep.For(r.Context(), wait); err != nil {
			return nil, err
		}
		r = r.Clone(r.Context())
		if r.GetBody != nil {
			if r.Body, err = r.GetBody(); err != nil {
				return nil, err
			}
		}
	}
}

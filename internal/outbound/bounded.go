package outbound

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Errors for answers that Bounded rejects.
var (
	ErrLong    = errors.New("the answer of the server is too long")
	ErrEncoded = errors.New("the server encodes its answer, which was not requested")
	ErrSlow    = errors.New("the server is too slow")
)

const (
	// leastBytes is the least that a server has to send within Bounded.Pause.
	leastBytes = 64 << 10
	// maxFailure limits the body of an answer with an error or a redirect, in bytes.
	maxFailure = 64 << 10
)

// Bounded limits the bodies of answers. It requests bodies without an encoding and rejects encoded bodies, because a
// decoder may take any amount of memory.
type Bounded struct {
	By    http.RoundTripper
	Most  int64         // bytes of a body
	Pause time.Duration // limits the total wait of reads for each 64 KiB (leastBytes) of a body
}

// mostKey is the key of the limit of a context.
type mostKey struct{}

// WithMost returns a context whose requests have the limit `most`, in bytes, instead of Bounded.Most.
func WithMost(ctx context.Context, most int64) context.Context {
	return context.WithValue(ctx, mostKey{}, most)
}

// RoundTrip implements http.RoundTripper. Reads from the body return ErrLong after the limit, and ErrSlow if the server
// sends less than leastBytes within b.Pause. The transport b.By must limit the wait for the header.
func (b Bounded) RoundTrip(q *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(q.Context())
	inner := q.Clone(ctx)
	inner.Header.Set("Accept-Encoding", "identity")
	answer, err := b.By.RoundTrip(inner)
	if err != nil {
		cancel(nil)
		return nil, err
	}
	if err := unencoded(answer.Header); err != nil {
		_ = answer.Body.Close()
		cancel(nil)
		return nil, err
	}
	most, ok := q.Context().Value(mostKey{}).(int64)
	if !ok {
		most = b.Most
	}
	if answer.StatusCode >= http.StatusMultipleChoices {
		most = min(most, maxFailure)
	}
	answer.Request = q
	answer.Body = newBody(ctx, cancel, answer.Body, most, b.Pause)
	return answer, nil
}

// CloseIdleConnections lets http.Client.CloseIdleConnections reach the transport.
func (b Bounded) CloseIdleConnections() {
	if c, ok := b.By.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// unencoded returns ErrEncoded if a body has an encoding. It removes the header, so that readers do not interpret it.
func unencoded(header http.Header) error {
	for _, value := range header.Values("Content-Encoding") {
		if name := strings.TrimSpace(value); name != "" && !strings.EqualFold(name, "identity") {
			return fmt.Errorf("%w: %.20q", ErrEncoded, name)
		}
	}
	header.Del("Content-Encoding")
	return nil
}

// body is the body of an answer with its limits.
type body struct {
	io.ReadCloser
	cause func() error
	end   func() // releases the context; is called once
	watch *time.Timer
	pause time.Duration // Bounded.Pause
	left  int64         // bytes until the limit
	since int           // bytes since rest was last set to pause
	rest  time.Duration // wait until the server is too slow
}

func newBody(
	ctx context.Context, cancel context.CancelCauseFunc, from io.ReadCloser, most int64, pause time.Duration,
) *body {
	b := &body{ReadCloser: from, left: most, pause: pause, rest: pause}
	b.cause = func() error { return context.Cause(ctx) }
	b.watch = time.AfterFunc(pause, func() { cancel(ErrSlow) })
	b.watch.Stop() // it runs only during reads, because the reader may be slow
	b.end = sync.OnceFunc(func() { b.watch.Stop(); cancel(nil) })
	return b
}

func (b *body) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1] // one byte more shows that the body is longer
	}
	began := time.Now()
	b.watch.Reset(b.rest)
	n, err := b.ReadCloser.Read(p)
	b.watch.Stop()
	b.rest = max(b.rest-time.Since(began), time.Nanosecond)
	if b.since += n; b.since >= leastBytes {
		b.since, b.rest = 0, b.pause
	}
	if int64(n) > b.left {
		n, err = int(b.left), ErrLong
	}
	b.left -= int64(n)
	if err != nil && !errors.Is(err, io.EOF) && errors.Is(b.cause(), ErrSlow) {
		err = ErrSlow
	}
	return n, err
}

func (b *body) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}

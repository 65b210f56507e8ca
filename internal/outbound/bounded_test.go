package outbound

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"writ/internal/test/testenv"
)

func TestAnswersAreBounded(t *testing.T) {
	const most = 1000
	status := func(code, size int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			_, _ = io.WriteString(w, strings.Repeat("a", size))
		}
	}
	encoded := func(names ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Encoding"] = names
			_, _ = io.WriteString(w, "text")
		}
	}
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		most   int64 // of the context
		size   int
		err    error
	}{
		"short":             {status(200, most), 0, most, nil},
		"long":              {status(200, most+1), 0, most, ErrLong},
		"very long":         {status(200, 1<<20), 0, most, ErrLong},
		"long, as allowed":  {status(200, 1<<20), 1 << 20, 1 << 20, nil},
		"a long failure":    {status(500, 1<<20), 1 << 20, maxFailure, ErrLong},
		"gzip":              {encoded("gzip"), 0, 0, ErrEncoded},
		"many encodings":    {encoded(strings.Repeat("deflate,", 1000)), 0, 0, ErrEncoded},
		"a second encoding": {encoded("identity", "zstd"), 0, 0, ErrEncoded},
		"no encoding":       {encoded("identity"), 0, 4, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(tt.answer)
			defer s.Close()
			transport := &http.Transport{}
			defer transport.CloseIdleConnections()
			ctx := t.Context()
			if tt.most > 0 {
				ctx = WithMost(ctx, tt.most)
			}
			q, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			var text []byte
			err = testenv.End(t, func() error {
				answer, err := Bounded{transport, most, time.Minute}.RoundTrip(q)
				if err != nil {
					return err
				}
				defer answer.Body.Close()
				if len(answer.Header.Values("Content-Encoding")) > 0 {
					t.Error("the reader gets an encoding")
				}
				text, err = io.ReadAll(answer.Body)
				return err
			})
			if !errors.Is(err, tt.err) || len(text) != tt.size {
				t.Errorf("%d bytes, %v", len(text), err)
			}
		})
	}
}

// dripping sends one byte after each pause, until its context ends.
type dripping struct {
	ctx   context.Context //nolint:containedctx // as of a request
	pause time.Duration
}

func (d dripping) Read(p []byte) (int, error) {
	select {
	case <-d.ctx.Done():
		return 0, d.ctx.Err()
	case <-time.After(d.pause):
		return copy(p, "a"), nil
	}
}

func TestSlowServersAreLeft(t *testing.T) {
	for name, tt := range map[string]struct {
		server, reader time.Duration // pauses before each byte
		most           int64
		err            error
	}{
		"a silent server":            {time.Hour, 0, 1 << 20, ErrSlow},
		"a byte each second":         {time.Second, 0, 1 << 20, ErrSlow},
		"64 KiB within the pause":    {800 * time.Microsecond, 0, leastBytes * 5 / 4, ErrLong},
		"the disk of the reader":     {time.Millisecond, time.Hour, 1000, ErrLong},
		"a caller that gives it up":  {time.Hour, -1, 1 << 20, context.Canceled},
		"a server that ends in time": {time.Second, 0, 50, ErrLong},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				parent, stop := context.WithCancel(t.Context())
				defer stop()
				if tt.reader < 0 {
					time.AfterFunc(time.Second, stop)
				}
				ctx, cancel := context.WithCancelCause(parent)
				b := newBody(ctx, cancel, io.NopCloser(dripping{ctx, tt.server}), tt.most, time.Minute)
				defer b.Close()
				var err error
				for one := make([]byte, 1); err == nil; _, err = b.Read(one) {
					time.Sleep(max(tt.reader, 0))
				}
				if !errors.Is(err, tt.err) {
					t.Errorf("%v", err)
				}
			})
		})
	}
}

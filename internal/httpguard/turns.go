package httpguard

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
)

// Turns limits the number of requests that use the processor at the same time.
type Turns interface {
	// Take waits for a turn of a remote address. The error is that of ctx. The caller ends the turn with release.
	Take(ctx context.Context, remote string) (release func(), err error)
}

// InTurn makes requests take turns. A request holds its turn while it computes. It releases the turn while it waits for
// a part of its body, and when it starts its response, so slow clients never hold a turn.
func InTurn(turns Turns, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		turn := &turn{turns: turns, ctx: r.Context(), remote: r.RemoteAddr}
		if turn.take() != nil {
			return // the client has disconnected
		}
		defer turn.end()
		r = r.WithContext(context.WithValue(r.Context(), turnKey{}, turn))
		if r.Body != nil {
			r.Body = &turnBody{r.Body, turn}
		}
		next.ServeHTTP(&turnWriter{w, turn}, r)
	})
}

// turnKey is the key of the turn in the context of its request.
type turnKey struct{}

// EndTurn releases the turn of a request permanently, if it has one. A handler calls it, in its own goroutine, before it
// waits for other requests.
func EndTurn(ctx context.Context) {
	if turn, ok := ctx.Value(turnKey{}).(*turn); ok {
		turn.end()
	}
}

// turn is the turn of one request. Only the goroutine of its handler uses it.
type turn struct {
	turns   Turns
	ctx     context.Context //nolint:containedctx // of the request
	remote  string
	release func() // nil without a turn
	ended   bool
}

func (t *turn) take() (err error) {
	if !t.ended && t.release == nil {
		t.release, err = t.turns.Take(t.ctx, t.remote)
	}
	return err
}

func (t *turn) give() {
	if t.release != nil {
		t.release()
		t.release = nil
	}
}

// end releases the turn permanently.
func (t *turn) end() {
	t.give()
	t.ended = true
}

type turnBody struct {
	io.ReadCloser
	turn *turn
}

func (b *turnBody) Read(p []byte) (int, error) {
	b.turn.give()
	n, err := b.ReadCloser.Read(p)
	if gone := b.turn.take(); gone != nil {
		return 0, gone
	}
	return n, err
}

type turnWriter struct {
	http.ResponseWriter
	turn *turn
}

func (w *turnWriter) WriteHeader(code int) {
	w.turn.end()
	w.ResponseWriter.WriteHeader(code)
}

func (w *turnWriter) Write(b []byte) (int, error) {
	w.turn.end()
	return w.ResponseWriter.Write(b)
}

// Hijack implements http.Hijacker.
func (w *turnWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.turn.end()
	return http.NewResponseController(w.ResponseWriter).Hijack()
}

// Unwrap makes the other methods available to http.ResponseController.
func (w *turnWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

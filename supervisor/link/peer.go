package link

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"writ"
	"writ/internal/clip"
	"writ/internal/failpoint"
	"writ/internal/sleep"
	"writ/internal/wake"
)

// requestWithin is the timeout of a request whose context has no deadline.
const requestWithin = 30 * time.Second

// peer is one end of a link after the handshake. Both ends are equal, except that events flow in one direction.
type peer struct {
	conn   *websocket.Conn
	other  string    // description of the other end
	gone   writ.Code // code for requests while the other end is not connected
	desk   *desk     // answers requests of the other end
	answer Handler
	verbs  []Verb        // verbs that answer supports
	pace   *rate.Limiter // limits the bytes read; nil means no limit
	binary bool          // whether the other end reads binary messages
	reads  binaryReader  // decodes binary messages; nil means that they violate the protocol

	out  chan []byte
	pong wake.Signal   // signals the writer to send a pong
	done chan struct{} // closed when the session is over

	mu   sync.Mutex
	open map[string]chan *frame // unanswered requests of this side; nil when the session is over
}

// binaryReader decodes a binary message.
type binaryReader func(data []byte) (*frame, error)

// attach prepares p for run on a connection after the handshake.
func (p *peer) attach(conn *websocket.Conn) {
	conn.SetReadLimit(MaxFrame)
	p.conn = conn
	p.out = make(chan []byte)
	p.pong = wake.New()
	p.done = make(chan struct{})
	p.open = map[string]chan *frame{}
}

// run transfers frames until the connection breaks, the other side violates the protocol, one of the functions in
// `works` returns an error, or ctx ends. handlers is the context of request handlers, which outlives the session. `on`
// receives the frames that do not belong to requests. The functions in `works` may use send. When run returns, all
// goroutines except handlers have ended.
func (p *peer) run(
	ctx, handlers context.Context, on func(ctx context.Context, f *frame) error, works ...func(ctx context.Context) error,
) error {
	group, session := errgroup.WithContext(ctx)
	group.Go(func() error { return p.read(session, handlers, on) })
	group.Go(func() error { return p.write(session) })
	for _, work := range works {
		group.Go(func() error { return work(session) })
	}
	err := group.Wait()

	p.mu.Lock()
	p.open = nil
	p.mu.Unlock()
	close(p.done)
	if broken, ok := errors.AsType[protocolError](err); ok {
		_ = p.conn.Close(websocket.StatusPolicyViolation, shortened(broken.what))
	}
	_ = p.conn.CloseNow()
	return err
}

// read receives frames until an error. It never waits for the other side to read, so two ends cannot deadlock.
func (p *peer) read(session, handlers context.Context, on func(ctx context.Context, f *frame) error) error {
	for {
		f, err := receive(session, p.conn, readWithin, p.reads)
		if err != nil {
			return err
		}
		if p.pace != nil {
			if err := p.pace.WaitN(session, min(f.size, p.pace.Burst())); err != nil {
				return err
			}
		}
		switch f.Type {
		case typeRequest:
			p.desk.take(handlers, p, f)
		case typeResponse:
			p.resolve(f)
		case typePing:
			p.pong.Raise()
		default:
			if err := on(session, f); err != nil {
				return err
			}
		}
	}
}

// write writes all frames. It is the only writer of the connection.
func (p *peer) write(session context.Context) error {
	pong, err := (&frame{Type: typePong}).encode()
	if err != nil {
		return err
	}
	for {
		var data []byte
		select {
		case <-session.Done():
			return session.Err()
		case data = <-p.out:
		case <-p.pong:
			data = pong
		}
		if err := writeWhole(session, p.conn, data); err != nil {
			return err
		}
	}
}

// ping sends pings, which both ends need to detect a dead connection.
func (p *peer) ping(session context.Context) error {
	for {
		if err := sleep.For(session, pingEvery); err != nil {
			return err
		}
		if err := p.send(session, &frame{Type: typePing}); err != nil {
			return err
		}
	}
}

// send queues a frame for the writer.
func (p *peer) send(ctx context.Context, f *frame) error {
	data, err := f.encode()
	if err != nil {
		return err
	}
	return p.hand(ctx, data)
}

// hand queues an encoded frame for the writer.
func (p *peer) hand(ctx context.Context, data []byte) error {
	select {
	case p.out <- data:
		return nil
	case <-p.done:
		return errCut
	case <-ctx.Done():
		return ctx.Err()
	}
}

// request sends a request to the other side and decodes its answer into result, which may be nil. It returns errCut if
// the session ends before the answer; the request may then be repeated with the same ID in another session.
func (p *peer) request(ctx context.Context, id string, verb Verb, params, result any) error {
	data, err := p.encodeRequest(id, verb, params)
	if err != nil {
		return err
	}
	answer := make(chan *frame, 1)
	p.mu.Lock()
	if p.open == nil {
		p.mu.Unlock()
		return errCut
	}
	p.open[id] = answer
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.open, id)
		p.mu.Unlock()
	}()

	if err := p.hand(ctx, data); err != nil {
		return err
	}
	select {
	case f := <-answer:
		return p.outcome(verb, f, result)
	case <-p.done:
		return errCut
	case <-ctx.Done():
		return ctx.Err()
	}
}

// encodeRequest returns the message of a request.
func (p *peer) encodeRequest(id string, verb Verb, params any) ([]byte, error) {
	f := &frame{Type: typeRequest, ID: id, Verb: verb}
	if text, ok := params.(byteParams); ok && p.binary {
		return f.encodeWith(text.bytes())
	}
	var err error
	if f.Params, err = json.Marshal(params); err != nil {
		return nil, fmt.Errorf("encode parameters of %s: %w", verb, err)
	}
	return f.encode()
}

// outcome decodes an answer into result, or returns its error.
func (p *peer) outcome(verb Verb, f *frame, result any) error {
	if !f.OK {
		return f.Error.asError(p.other, f.ID)
	}
	if result == nil {
		return nil
	}
	if err := decode(f.Result, result, false); err != nil {
		return writ.Errorf(writ.CodeExecError, "the answer of %s to %s cannot be decoded: %v", p.other, verb, err)
	}
	return nil
}

// resolve passes an answer to the request that waits for it, if any. It drops further answers.
func (p *peer) resolve(f *frame) {
	p.mu.Lock()
	answer := p.open[f.ID]
	p.mu.Unlock()
	select {
	case answer <- f:
	default:
	}
}

// bounded adds the default timeout to a context without a deadline.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, requestWithin)
}

// failed converts the error of a request for the caller.
func (p *peer) failed(err error, verb Verb) error {
	switch {
	case errors.Is(err, errCut):
		return writ.Errorf(p.gone, "the link to %s was cut before %s was answered", p.other, verb)
	case errors.Is(err, context.DeadlineExceeded):
		return writ.Errorf(writ.CodeTimeout, "%s did not answer %s in time", p.other, verb)
	default:
		return err
	}
}

// receive reads one frame. It decodes a binary message with binary, which may be nil.
func receive(
	ctx context.Context, conn *websocket.Conn, within time.Duration, binary binaryReader,
) (*frame, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("no frame received for %v", within))
	defer cancel()
	kind, data, err := conn.Read(ctx)
	switch {
	case errors.Is(err, websocket.ErrMessageTooBig):
		return nil, protocolError{"a frame is too large"}
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, err
	case kind == websocket.MessageText:
		binary = decodeFrame
	case binary == nil:
		return nil, protocolError{"a frame is binary"}
	}
	f, err := binary(data)
	if err == nil {
		f.size = len(data)
	}
	return f, err
}

// transmit writes one frame of the handshake.
func transmit(ctx context.Context, conn *websocket.Conn, f *frame) error {
	data, err := f.encode()
	if err != nil {
		return err
	}
	return writeWhole(ctx, conn, data)
}

func writeWhole(ctx context.Context, conn *websocket.Conn, data []byte) error {
	ctx, cancel := context.WithTimeoutCause(ctx, writeWithin,
		fmt.Errorf("the other side accepted no data for %v", writeWithin))
	defer cancel()
	kind := websocket.MessageText
	head, _, carries := bytes.Cut(data, []byte{bytesMark})
	if carries {
		kind = websocket.MessageBinary
	}
	failpoint.OfFrame(head).Begin()
	err := conn.Write(ctx, kind, data)
	failpoint.OfFrame(head).End(err)
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	return nil
}

// shortened cuts a reason to the size of a close frame, at a character boundary.
func shortened(reason string) string {
	return clip.Prefix(reason, 120)
}

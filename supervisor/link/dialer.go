package link

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/time/rate"

	"writ"
	"writ/internal/limit"
	"writ/internal/sleep"
)

// Limits of the delay before the next connection attempt.
const (
	minRetry = time.Second
	maxRetry = 60 * time.Second
)

// HTTPClient is the client of a Dialer.
type HTTPClient = http.Client

// Dialer is a supervisor's end of its link to one coordinator. Fill it in, then call Run.
type Dialer struct {
	URL string // the coordinator's own URL, "https://coord.example"; Sign covers it
	// Hello returns the supervisor's identity and its current capabilities and state. The dialer calls it before each
	// session and adds the signature.
	Hello func() Hello
	// Sign returns the supervisor's signature over the nonce, the coordinator's URL, and the datacenter and journal of
	// hello.
	Sign func(hello Hello, nonce []byte, url string) ([]byte, error)
	// Events is the source of the events of hello's journal.
	Events EventSource
	// Handle answers the requests whose verbs hello lists. The context of a call ends with Run, not with the session.
	Handle Handler
	// Fault returns why the datacenter cannot continue, or "". It may be nil.
	Fault func() string
	// Welcomed is called after each successful handshake, in its own goroutine; its context ends with the session. It
	// may be nil.
	Welcomed func(ctx context.Context, welcome Welcome)
	HTTP     *http.Client // dials; http.DefaultClient if nil
	Log      *slog.Logger

	comings limit.Lines // rate-limited log of connects and disconnects: a coordinator can end a session every second

	mu   sync.Mutex
	peer *peer // of the current session, nil between sessions
}

// Limits of the bytes that a supervisor reads from a coordinator, per second and in a burst. Reading a megabyte takes
// at most 10 ms of CPU, for any content.
const (
	readBytes     = 8 << 20
	readBytesOnce = 32 << 20
)

// Run maintains a session with the coordinator until ctx ends, then returns nil. While the coordinator is unreachable,
// Run retries with increasing delays from 1 s to 60 s, always with jitter.
func (d *Dialer) Run(ctx context.Context) error {
	log := d.Log.With("coordinator", d.URL)
	var answering sync.WaitGroup
	defer answering.Wait()
	desk := newDesk(&answering, log)
	d.comings.AtOnce = comingsAtOnce
	pace := rate.NewLimiter(readBytes, readBytesOnce)
	for attempt, wait := 0, time.Duration(0); ; attempt++ {
		began := time.Now()
		welcomed, err := d.session(ctx, desk, pace, log)
		if ctx.Err() != nil {
			return nil
		}
		// A coordinator that ends each session immediately, for example with a damaged ledger, is retried less often.
		if welcomed && time.Since(began) >= wait {
			attempt = 0
		}
		wait = retryAfter(attempt)
		if times, say := d.comings.Say("cut", time.Now()); say {
			log.WarnContext(ctx, "no link to the coordinator", "err", err, "retry_in", wait.Round(time.Millisecond),
				"times", times)
		}
		if sleep.For(ctx, wait) != nil {
			return nil
		}
	}
}

// retryAfter returns the delay before the next attempt. It doubles from 1 s to 60 s and is reduced by a random part of
// up to half. So the supervisors of many datacenters do not reconnect to a restarted coordinator at the same moment.
func retryAfter(attempt int) time.Duration {
	wait := min(minRetry<<min(attempt, 10), maxRetry)
	return wait - rand.N(wait/2)
}

// Request sends a request to the coordinator and decodes its answer into result, a pointer or nil. A context without a
// deadline gets 30 s. It returns the error in the coordinator's answer. Other errors are UNREACHABLE without a session
// or if the session ends before the answer, TIMEOUT, and TOO_LARGE for params beyond MaxFrame.
func (d *Dialer) Request(ctx context.Context, verb Verb, params, result any) error {
	d.mu.Lock()
	p := d.peer
	d.mu.Unlock()
	if p == nil {
		return writ.Errorf(writ.CodeUnreachable, "the supervisor has no link to the coordinator at %s", d.URL)
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	return p.failed(p.request(ctx, writ.NewUUID(), verb, params, result), verb)
}

// Connected reports whether a session with the coordinator exists.
func (d *Dialer) Connected() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.peer != nil
}

// session runs one connection from dial to end.
func (d *Dialer) session(
	ctx context.Context, desk *desk, pace *rate.Limiter, log *slog.Logger,
) (welcomed bool, err error) {
	conn, err := d.dial(ctx)
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.CloseNow() }()
	hello, welcome, err := d.greet(ctx, conn)
	if err != nil {
		return false, err
	}
	if err := d.Events.Agree(ctx, hello.Journal, welcome.Ack, welcome.At); err != nil {
		return true, err
	}
	p := &peer{
		other:  "the coordinator at " + d.URL,
		gone:   writ.CodeUnreachable,
		desk:   desk,
		answer: d.Handle,
		verbs:  hello.Verbs,
		pace:   pace,
		reads:  decodeBinary,
	}
	p.attach(conn)
	d.mu.Lock()
	d.peer = p
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		d.peer = nil
		d.mu.Unlock()
	}()
	if times, say := d.comings.Say("linked", time.Now()); say {
		log.InfoContext(ctx, "linked to the coordinator", "session", welcome.Session, "after", welcome.Ack, "times", times)
	}

	out := newOutflow(d.Events, welcome.Ack)
	works := []func(context.Context) error{
		p.ping,
		func(ctx context.Context) error { return out.send(ctx, p) },
		func(ctx context.Context) error { return out.confirm(ctx, log) },
	}
	if d.Welcomed != nil {
		works = append(works, func(ctx context.Context) error {
			d.Welcomed(ctx, *welcome)
			return nil
		})
	}
	if d.Fault != nil {
		works = append(works, func(ctx context.Context) error { return d.tellFaults(ctx, p) })
	}
	return true, p.run(ctx, ctx, func(_ context.Context, f *frame) error {
		if f.Type == typeAck {
			return out.acked(f.Seq)
		}
		return nil // pongs, and unknown types of later versions
	}, works...)
}

// faultsEvery is the interval at which a dialer checks Fault for changes.
const faultsEvery = time.Second

// tellFaults sends each change of Fault to the coordinator.
func (d *Dialer) tellFaults(ctx context.Context, p *peer) error {
	for told := ""; ; {
		if fault := d.Fault(); fault != told {
			if err := p.send(ctx, &frame{Type: typeFault, Detail: fault}); err != nil {
				return err
			}
			told = fault
		}
		if err := sleep.For(ctx, faultsEvery); err != nil {
			return err
		}
	}
}

// dial connects, without the handshake of the link.
func (d *Dialer) dial(ctx context.Context) (*websocket.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, greetWithin)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, strings.TrimSuffix(d.URL, "/")+Path, &websocket.DialOptions{HTTPClient: d.HTTP})
	return conn, err
}

// greet performs the handshake.
func (d *Dialer) greet(ctx context.Context, conn *websocket.Conn) (Hello, *Welcome, error) {
	conn.SetReadLimit(maxGreeting)
	challenge, err := await(ctx, conn, typeChallenge)
	if err != nil {
		return Hello{}, nil, err
	}
	hello := d.Hello()
	hello.Binary = true
	if hello.Signature, err = d.Sign(hello, challenge.Nonce, d.URL); err != nil {
		return Hello{}, nil, fmt.Errorf("sign hello: %w", err)
	}
	if err := transmit(ctx, conn, &frame{Type: typeHello, Hello: &hello}); err != nil {
		return Hello{}, nil, err
	}
	answer, err := await(ctx, conn, typeWelcome)
	if err != nil {
		return Hello{}, nil, err
	}
	return hello, answer.Welcome, nil
}

// await reads the next frame of the handshake, which must have the given type.
func await(ctx context.Context, conn *websocket.Conn, kind string) (*frame, error) {
	f, err := receive(ctx, conn, greetWithin, nil)
	switch {
	case err != nil:
		return nil, fmt.Errorf("wait for %s: %w", kind, err)
	case f.Type == typeRefused:
		refusal := f.Error.asError("the coordinator", "-")
		return nil, fmt.Errorf("the link was refused: %s: %w", refusal.Code, refusal)
	case f.Type != kind:
		return nil, errors.New("a " + f.Type + " frame arrived instead of a " + kind)
	}
	return f, nil
}

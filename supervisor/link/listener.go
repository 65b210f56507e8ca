package link

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"writ"
	"writ/internal/limit"
)

// Listener is a coordinator's end of the links of all its datacenters: an http.Handler for Path. Fill it in before use.
// Close it after the HTTP server, which does not track connections that became links.
type Listener struct {
	// Authenticate returns nil if hello comes from its datacenter. The signature over nonce, this coordinator's URL,
	// datacenter and journal must verify with the datacenter's key in the roster. Its error is sent to the supervisor.
	Authenticate func(ctx context.Context, hello Hello, nonce []byte) error
	// Welcome returns the facts about this coordinator for the supervisor. The listener fills in Session and Ack.
	Welcome func(ctx context.Context, hello Hello) (Welcome, error)
	// Events stores the events of the datacenters. While Events returns errors, the listener retries and the flow of
	// events waits.
	Events EventSink
	// Verbs lists the requests of supervisors that HandlerFor's handlers answer.
	Verbs []Verb
	// HandlerFor returns the handler for the requests of the sender of hello. It may be nil if Verbs is empty.
	HandlerFor func(hello Hello) Handler
	// Connected is called for each session, in its own goroutine; its context ends with the session. It may be nil.
	Connected func(ctx context.Context, session *Session)
	Log       *slog.Logger

	sessions
	refusals limit.Lines
	intake   intake
}

// Close ends all sessions, refuses new sessions, and returns when all of their goroutines have ended.
func (l *Listener) Close() { l.close(errClosing) }

var (
	errClosing  = errors.New("the coordinator is stopping")
	errReplaced = errors.New("another session of the same datacenter took over")
)

// ServeHTTP serves one link from its handshake to its end.
func (l *Listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, err := l.enter()
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer l.serving.Done()
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return // Accept has answered
	}
	defer func() { _ = conn.CloseNow() }()

	s, err := l.greet(ctx, conn, r.RemoteAddr)
	if err != nil {
		l.refused(ctx, r.RemoteAddr, err)
		return
	}
	log := l.Log.With("dc", s.Hello.Datacenter, "session", s.ID)
	if err := l.serve(ctx, conn, s, log); err != nil && !errors.Is(err, errClosing) {
		if times, say := l.comings.Say("away "+string(s.Hello.Datacenter), time.Now()); say {
			log.WarnContext(ctx, "datacenter is away", "err", err, "times", times)
		}
	}
}

// refused logs a refused link, rate-limited: any host may connect, at any rate.
func (l *Listener) refused(ctx context.Context, remote string, err error) {
	if ctx.Err() != nil {
		return // the listener is closing
	}
	code := writ.CodeOf(err)
	if times, say := l.refusals.Say(string(code), time.Now()); say {
		l.Log.WarnContext(ctx, "link refused", "remote", remote, "code", code, "err", err, "times", times)
	}
}

// greet challenges the other side and returns a session if it proves its identity. The session is not ready yet.
func (l *Listener) greet(ctx context.Context, conn *websocket.Conn, remote string) (*Session, error) {
	conn.SetReadLimit(maxGreeting)
	nonce := make([]byte, 32)
	_, _ = rand.Read(nonce) // never fails
	if err := transmit(ctx, conn, &frame{Type: typeChallenge, Nonce: nonce}); err != nil {
		return nil, writ.Errorf(writ.CodeBadRequest, "send a challenge: %w", err)
	}
	f, err := await(ctx, conn, typeHello)
	if err != nil {
		return nil, writ.Errorf(writ.CodeBadRequest, "%w", err)
	}
	hello := *f.Hello
	if err := l.admit(ctx, hello, nonce); err != nil {
		refuse(ctx, conn, err)
		return nil, fmt.Errorf("admit %q: %w", hello.Datacenter, err)
	}
	return &Session{ID: writ.NewUUID(), Hello: hello, Remote: remote, Since: time.Now(), ended: make(chan struct{})}, nil
}

func (l *Listener) admit(ctx context.Context, hello Hello, nonce []byte) error {
	if !writ.ValidUUID(string(hello.Datacenter)) || hello.Journal == "" || len(hello.Journal) > maxID {
		return writ.Errorf(writ.CodeBadRequest, "a hello must contain the UUID of its datacenter, and its journal")
	}
	return l.Authenticate(ctx, hello, nonce)
}

// refuse sends the other side the reason for the refusal and closes the connection.
func refuse(ctx context.Context, conn *websocket.Conn, err error) {
	_ = transmit(ctx, conn, &frame{Type: typeRefused, Error: failureOf(err)})
	_ = conn.Close(websocket.StatusPolicyViolation, string(writ.CodeOf(err)))
}

// serve runs a session to its end. It first waits until the previous session has ended, so that two sessions never
// store events concurrently.
func (l *Listener) serve(ctx context.Context, conn *websocket.Conn, s *Session, log *slog.Logger) error {
	defer close(s.ended)
	session, end := context.WithCancelCause(ctx)
	defer end(nil)
	s.end = end
	before, desk, err := l.claim(s, l.Log)
	if err != nil {
		refuse(ctx, conn, err)
		return fmt.Errorf("claim datacenter: %w", err)
	}
	s.peer = l.peerOf(s, desk)
	defer l.release(s)
	if before != nil {
		before.end(errReplaced)
		<-before.ended
	}
	in, err := l.welcome(session, conn, s)
	if err != nil {
		refuse(ctx, conn, err)
		return fmt.Errorf("welcome: %w", err)
	}
	l.announce(s)
	if times, say := l.comings.Say("connected "+string(s.Hello.Datacenter), time.Now()); say {
		log.InfoContext(ctx, "datacenter is connected", "remote", s.Remote, "version", s.Hello.Version,
			"epoch", s.Hello.Epoch,
			"after", in.received, "times", times)
	}
	err = s.peer.run(session, ctx, func(ctx context.Context, f *frame) error {
		if f.Type == typeFault {
			s.fault.Store(&f.Detail)
			return nil
		}
		return in.on(ctx, f)
	}, l.works(s, in, log)...)
	return cmp.Or(context.Cause(session), err)
}

// works returns the functions of a session that run in goroutines beside the reader and the writer.
func (l *Listener) works(s *Session, in *inflow, log *slog.Logger) []func(context.Context) error {
	works := []func(context.Context) error{
		func(ctx context.Context) error { return in.store(ctx, s.peer, log) },
	}
	if l.Connected != nil {
		works = append(works, func(ctx context.Context) error {
			l.Connected(ctx, s)
			return nil
		})
	}
	return works
}

// peerOf returns the other side of a session.
func (l *Listener) peerOf(s *Session, d *desk) *peer {
	p := &peer{
		other:  "the supervisor of datacenter " + string(s.Hello.Datacenter),
		gone:   writ.CodeDatacenterAway,
		desk:   d,
		verbs:  l.Verbs,
		binary: s.Hello.Binary,
	}
	if l.HandlerFor != nil {
		p.answer = l.HandlerFor(s.Hello)
	}
	return p
}

// welcome ends the handshake.
func (l *Listener) welcome(ctx context.Context, conn *websocket.Conn, s *Session) (*inflow, error) {
	welcome, err := l.Welcome(ctx, s.Hello)
	if err != nil {
		return nil, err
	}
	welcome.Session = s.ID
	if welcome.Ack, welcome.At, err = l.Events.LastEvent(ctx, s.Hello.Datacenter, s.Hello.Journal); err != nil {
		return nil, fmt.Errorf("find last event: %w", err)
	}
	s.peer.attach(conn)
	if err := transmit(ctx, conn, &frame{Type: typeWelcome, Welcome: &welcome}); err != nil {
		return nil, err
	}
	in := newInflow(l.Events, &l.intake, s.Hello, welcome.Ack)
	in.paused = s.pause
	return in, nil
}

// Request sends a request to the supervisor of a datacenter, like Session.Request. If the link is cut before the answer
// and restored within 5 s, the request continues in the new session under its old ID. So it is handled once, and its
// answer is not lost. DATACENTER_UNAVAILABLE means that the datacenter is not connected; if the link was cut during the
// request, the request may have been carried out.
func (l *Listener) Request(ctx context.Context, datacenter writ.DatacenterID, verb Verb, params, result any) error {
	s, ok := l.Session(datacenter)
	if !ok {
		return writ.Errorf(writ.CodeDatacenterAway, "the supervisor of datacenter %s is not connected", datacenter)
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	id := writ.NewUUID()
	for {
		err := s.request(ctx, id, verb, params, result)
		if !errors.Is(err, errCut) {
			return s.peer.failed(err, verb)
		}
		next, ok := l.successor(ctx, s)
		if !ok {
			return s.peer.failed(cmp.Or(ctx.Err(), err), verb)
		}
		s = next
	}
}

package link

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"writ"
)

// resumeWithin limits how long an open request waits for a supervisor to reconnect after its link was cut. Its first
// attempt comes after at most one second.
const resumeWithin = 5 * time.Second

// Session is an established link.
type Session struct {
	ID     string
	Hello  Hello
	Remote string // address of the supervisor, or of a proxy in front of it
	Since  time.Time

	fault  atomic.Pointer[string]
	paused atomic.Pointer[string]
	peer   *peer
	ready  bool // the handshake is done; guarded by Listener.mu
	end    context.CancelCauseFunc
	ended  chan struct{} // closed after the last goroutine of the session
}

// End ends the session; the reason appears only in the log. The supervisor dials again and is authenticated again.
func (s *Session) End(reason error) { s.end(reason) }

// Fault returns why the datacenter does not continue, or "": the reason reported by its supervisor, or the reason why
// this coordinator does not store its events.
func (s *Session) Fault() string {
	for _, reason := range []*string{s.paused.Load(), s.fault.Load()} {
		if reason != nil && *reason != "" {
			return *reason
		}
	}
	return ""
}

func (s *Session) pause(reason string) { s.paused.Store(&reason) }

// Done returns a channel that is closed when the session is over.
func (s *Session) Done() <-chan struct{} { return s.ended }

// Request sends a request to the supervisor of this session and decodes its answer into result, a pointer or nil.
// progress may be nil. A context without a deadline gets 30 s. It returns the error in the answer;
// DATACENTER_UNAVAILABLE if the session ends before the answer; TIMEOUT; VERB_UNSUPPORTED, without sending, for a verb
// that the supervisor's hello does not list; or TOO_LARGE.
func (s *Session) Request(
	ctx context.Context, verb Verb, params, result any, progress func(stage, detail string),
) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	return s.peer.failed(s.request(ctx, writ.NewUUID(), verb, params, result, progress), verb)
}

func (s *Session) request(
	ctx context.Context, id string, verb Verb, params, result any, progress func(stage, detail string),
) error {
	if !slices.Contains(s.Hello.Verbs, verb) {
		return writ.Errorf(writ.CodeVerbUnsupported, "the supervisor of datacenter %s (version %s) does not support %q",
			s.Hello.Datacenter, s.Hello.Version, verb)
	}
	return s.peer.request(ctx, id, verb, params, result, progress)
}

// Session returns the session of a datacenter, if it is connected.
func (l *Listener) Session(datacenter writ.DatacenterID) (*Session, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.sessions[datacenter]
	return s, s != nil && s.ready
}

// Sessions returns all established sessions, ordered by datacenter.
func (l *Listener) Sessions() []*Session {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []*Session
	for _, s := range l.sessions {
		if s.ready {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b *Session) int { return cmp.Compare(a.Hello.Datacenter, b.Hello.Datacenter) })
	return all
}

// Request is Request of the datacenter's session. If the link is cut before the answer and restored within 5 s, the
// request continues in the new session under its old ID, so that it is handled once and its answer is not lost.
// DATACENTER_UNAVAILABLE means that the datacenter is away; if the link was cut during the request, it may have been
// carried out.
func (l *Listener) Request(
	ctx context.Context, datacenter writ.DatacenterID, verb Verb, params, result any, progress func(stage, detail string),
) error {
	s, ok := l.Session(datacenter)
	if !ok {
		return writ.Errorf(writ.CodeDatacenterAway, "the supervisor of datacenter %s is not connected", datacenter)
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	id := writ.NewUUID()
	for {
		err := s.request(ctx, id, verb, params, result, progress)
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

// successor waits for the next session of s's datacenter.
func (l *Listener) successor(ctx context.Context, s *Session) (*Session, bool) {
	ctx, cancel := context.WithTimeout(ctx, resumeWithin)
	defer cancel()
	for {
		l.mu.Lock()
		next, changed := l.sessions[s.Hello.Datacenter], l.changed
		ready := next != nil && next != s && next.ready
		l.mu.Unlock()
		if ready {
			return next, true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, false
		}
	}
}

package link

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"writ"
)

// resumeWithin limits how long an open request waits for a supervisor to reconnect after its link was cut. The
// supervisor dials again after at most one second.
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
	ready  bool // the handshake is done; guarded by sessions.mu
	end    context.CancelCauseFunc
	ended  chan struct{} // closed after the last goroutine of the session
}

// End ends the session; the reason appears only in the log. The supervisor dials again and is authenticated again.
func (s *Session) End(reason error) { s.end(reason) }

// Fault returns why the datacenter does not continue, or "". The reason comes from its supervisor, or from this
// coordinator if it does not store the events.
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

// Request sends a request to the supervisor of this session and decodes its answer into result, a pointer or nil. A
// context without a deadline gets 30 s. It returns the error in the answer. Other errors are DATACENTER_UNAVAILABLE if
// the session ends before the answer, TIMEOUT, and TOO_LARGE. For a verb that the supervisor's hello does not list, it
// returns VERB_UNSUPPORTED without sending the request.
func (s *Session) Request(ctx context.Context, verb Verb, params, result any) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	return s.peer.failed(s.request(ctx, writ.NewUUID(), verb, params, result), verb)
}

func (s *Session) request(ctx context.Context, id string, verb Verb, params, result any) error {
	if !slices.Contains(s.Hello.Verbs, verb) {
		return writ.Errorf(writ.CodeVerbUnsupported, "the supervisor of datacenter %s (version %s) does not support %q",
			s.Hello.Datacenter, s.Hello.Version, verb)
	}
	return s.peer.request(ctx, id, verb, params, result)
}

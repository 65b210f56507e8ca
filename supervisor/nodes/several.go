package nodes

import (
	"cmp"
	"context"
	"net/http"
	"sync"
	"time"

	"writ"
)

// Several is a client of all supervisors of a datacenter: one supervisor serves, the others are standby. It asks the
// supervisor that answered last. If that supervisor is unreachable or standby, it asks the next supervisor. Any
// supervisor may answer, because the node verifies every answer that must be trusted.
type Several struct {
	All      []Backend     // in the initial order
	Patience time.Duration // wait for an answer before the next supervisor is asked, too; 0 means patience

	mu    sync.Mutex
	at    int
	since time.Time // when the answers stopped; zero while a supervisor answers
}

var _ Backend = (*Several)(nil)

// patience is longer than a supervisor takes to answer, unless it is heavily loaded.
const patience = 3 * time.Second

// NewSeveral returns a client of the node APIs at urls. client connects to them and authenticates them;
// http.DefaultClient if nil.
func NewSeveral(client *http.Client, urls ...string) *Several {
	s := new(Several)
	for _, url := range urls {
		s.All = append(s.All, &Client{URL: url, HTTP: client})
	}
	return s
}

// Away returns the time since which no supervisor has answered, zero while a supervisor answers.
func (s *Several) Away() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.since
}

// current returns the index of the supervisor to ask.
func (s *Several) current() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at
}

// heard records the answer of a supervisor, and reports whether it was reachable and serving.
func (s *Several) heard(ctx context.Context, at int, err error) bool {
	away := writ.CodeOf(err) == writ.CodeUnreachable || writ.CodeOf(err).IsStoreUnavailable()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !away:
		if err == nil || ctx.Err() == nil {
			s.at, s.since = at, time.Time{}
		}
	case s.at == at:
		s.at = (at + 1) % len(s.All)
		if s.since.IsZero() {
			s.since = time.Now()
		}
	}
	return !away
}

// ask calls question for one supervisor after the other until one answers. It asks the next supervisor when one is
// unreachable or standby, or has not answered within Patience. The first answer counts: a supervisor that hangs costs
// at most Patience, and a slow supervisor can still answer.
func ask[T any](ctx context.Context, s *Several, question func(ctx context.Context, b Backend) (T, error)) (T, error) {
	type reply struct {
		at     int
		answer T
		err    error
	}
	asking, stop := context.WithCancel(ctx)
	defer stop()
	replies, first, asked, open := make(chan reply, len(s.All)), s.current(), 0, 0
	next := func() {
		at := (first + asked) % len(s.All)
		asked, open = asked+1, open+1
		go func() {
			answer, err := question(asking, s.All[at])
			replies <- reply{at, answer, err}
		}()
	}
	next()
	wait := cmp.Or(s.Patience, patience)
	impatient := time.NewTicker(wait)
	defer impatient.Stop()
	for {
		select {
		case r := <-replies:
			open--
			if s.heard(ctx, r.at, r.err) || ctx.Err() != nil || asked == len(s.All) && open == 0 {
				return r.answer, r.err
			}
		case <-impatient.C:
		}
		if asked < len(s.All) {
			next()
			impatient.Reset(wait)
		}
	}
}

// Greet implements Backend.
func (s *Several) Greet(ctx context.Context, hello Hello) (Proof, error) {
	return ask(ctx, s, func(ctx context.Context, b Backend) (Proof, error) { return b.Greet(ctx, hello) })
}

// Admit implements Backend. It asks only the current supervisor, because no other supervisor has the nonce of the
// claim.
func (s *Several) Admit(ctx context.Context, claim Claim) (Welcome, error) {
	at := s.current()
	welcome, err := s.All[at].Admit(ctx, claim)
	s.heard(ctx, at, err)
	return welcome, err
}

// Rosters implements Backend.
func (s *Several) Rosters(ctx context.Context, after int) ([][]byte, error) {
	return ask(ctx, s, func(ctx context.Context, b Backend) ([][]byte, error) { return b.Rosters(ctx, after) })
}

// Payload implements Backend.
func (s *Several) Payload(ctx context.Context, digest writ.Digest) ([]byte, error) {
	return ask(ctx, s, func(ctx context.Context, b Backend) ([]byte, error) { return b.Payload(ctx, digest) })
}

// Account implements Backend.
func (s *Several) Account(ctx context.Context, node writ.NodeID, asked []byte) ([]byte, error) {
	return ask(ctx, s, func(ctx context.Context, b Backend) ([]byte, error) { return b.Account(ctx, node, asked) })
}

// Fence implements Backend.
func (s *Several) Fence(ctx context.Context, node writ.NodeID, nonce []byte) ([]byte, error) {
	return ask(ctx, s, func(ctx context.Context, b Backend) ([]byte, error) { return b.Fence(ctx, node, nonce) })
}

// Fenced implements Backend.
func (s *Several) Fenced(ctx context.Context, node writ.NodeID, signed []byte) error {
	_, err := ask(ctx, s,
		func(ctx context.Context, b Backend) (struct{}, error) { return struct{}{}, b.Fenced(ctx, node, signed) })
	return err
}

// Standing implements Backend.
func (s *Several) Standing(ctx context.Context, node writ.NodeID, nonce []byte) ([]byte, error) {
	return ask(ctx, s, func(ctx context.Context, b Backend) ([]byte, error) { return b.Standing(ctx, node, nonce) })
}

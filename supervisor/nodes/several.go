package nodes

import (
	"cmp"
	"context"
	"net/http"
	"sync"
	"time"

	"writ"
)

// Several asks the supervisors of a datacenter, of which one serves and the others stand by: the one that answered last, and the next one when
// that does not answer or stands by. What a node has to believe it verifies itself, so it does not matter which one answers.
type Several struct {
	All      []Backend     // in the order in which they are asked at first
	Patience time.Duration // how long one is waited for alone; patience if 0

	mu    sync.Mutex
	at    int
	since time.Time // when the last one stopped answering, zero while one does
}

var _ Backend = (*Several)(nil)

// patience is how long a supervisor that works is silent at the most, but for one with very much to do.
const patience = 3 * time.Second

// NewSeveral returns the node APIs at some addresses. client reaches them, and verifies who answers; http.DefaultClient if nil.
func NewSeveral(client *http.Client, urls ...string) *Several {
	s := new(Several)
	for _, url := range urls {
		s.All = append(s.All, &Client{URL: url, HTTP: client})
	}
	return s
}

// Away returns since when no supervisor has answered, zero if one does.
func (s *Several) Away() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.since
}

// current returns the one to be asked.
func (s *Several) current() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at
}

// heard notes how the one at an index answered, and reports whether it did.
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

// ask asks one after the other until one answers: the next one when one is away, and besides it when one takes longer than Patience. Whoever
// answers first counts, so that one which only hangs costs no more than that, and one which is slow is heard all the same.
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

// Admit implements Backend. Only the supervisor that was greeted knows the nonce of the claim, so no other one is asked.
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
	_, err := ask(ctx, s, func(ctx context.Context, b Backend) (struct{}, error) { return struct{}{}, b.Fenced(ctx, node, signed) })
	return err
}

// Standing implements Backend.
func (s *Several) Standing(ctx context.Context, node writ.NodeID, nonce []byte) ([]byte, error) {
	return ask(ctx, s, func(ctx context.Context, b Backend) ([]byte, error) { return b.Standing(ctx, node, nonce) })
}

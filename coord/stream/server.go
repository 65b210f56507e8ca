// Package stream sends the events of the ledger to readers as they are stored. All streams share one tail of encoded
// events; a reader that is too far behind reads the ledger. Package access decides about read rights; a stream checks
// them again before each batch of events.
package stream

import (
	"context"
	"log/slog"

	"writ"
	"writ/coord/api"
	"writ/internal/broadcast"
	"writ/internal/limit"
	"writ/ledger"
)

// Config configures a Server. All fields are required.
type Config struct {
	Ledger   Ledger
	Log      *slog.Logger
	News     *broadcast.Signal // signals new rows in the ledger
	Rights   *broadcast.Signal // signals that rights may have changed
	Still    func(ctx context.Context) error
	Stopping <-chan struct{} // closed when the coordinator stops, which ends the streams
	Max      int             // open streams
}

// Ledger is the part of ledger.Events that streams read.
type Ledger interface {
	EventRange(ctx context.Context) (oldest, newest int64, err error)
	EncodedEvents(
		ctx context.Context, after int64, filter ledger.EventFilter, max int,
	) (events []ledger.EncodedEvent, more bool, err error)
}

// Server opens event streams.
type Server struct {
	Config
	Streams limit.Shares // open streams

	tail *tail
}

// New returns a Server. Its streams receive events while Run runs.
func New(config Config) *Server {
	return &Server{
		Config: config, Streams: limit.Shares{Size: config.Max},
		tail: &tail{
			ledger: config.Ledger, log: config.Log, stored: config.News.Next, limit: tailBytes, watched: make(chan struct{}, 1),
		},
	}
}

// Run reads new events for the open streams until ctx ends.
func (v *Server) Run(ctx context.Context) error { return v.tail.run(ctx) }

// Open returns a stream that starts after the event `named`. If `named` is nil, `standard` returns the position. If the
// events after `named` are not in the ledger, the stream begins with a reset message.
func (v *Server) Open(
	ctx context.Context, filter ledger.EventFilter, topics []api.Topic, named *int64,
	standard func(oldest, newest int64) int64,
) (*Stream, error) {
	for _, t := range topics {
		if !t.Valid() {
			return nil, writ.Errorf(writ.CodeBadRequest, "unknown topic %q", t).WithHint("topics are %v", ledger.Topics)
		}
		filter.Topics = append(filter.Topics, string(t))
	}
	oldest, newest, err := v.Ledger.EventRange(ctx)
	if err != nil {
		return nil, err
	}
	s := &Stream{server: v, ctx: ctx, filter: filter}
	switch {
	case named == nil:
		s.after = standard(oldest, newest)
	case *named < oldest-1 || *named > newest: // pruned, or from a ledger that this one replaced
		s.after, s.reset = newest, true
	default:
		s.after = *named
	}
	return s, nil
}

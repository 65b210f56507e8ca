// Package redisqueue is the queue on Redis: asynq for jobs, streams for messages. It knows Redis and asynq, and not what it carries.
// Redis here is delivery only: what is lost in it is delivered again from the journals at both ends.
//
// Keys of a node: those of asynq ("asynq:{<node>}:…") and its two streams ("writ:{<node>}:in", "writ:{<node>}:out"). The generation
// is one key, so a Redis database belongs to one datacenter. At most about 10,000 messages wait in a stream; then the oldest are
// dropped, because a reader that stays away must not fill the memory of Redis: results are sent until they are acknowledged, and a
// newer beat says more than an older one.
package redisqueue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"writ"
	"writ/internal/failpoint"
	"writ/internal/limit"
	"writ/runner/queue"
)

const generationKey = "writ:generation"

// Queue is a queue on Redis. Make it with Open or New; set its fields before the first call.
type Queue struct {
	// Log gets what happens in the background; it may be nil.
	Log *slog.Logger
	// Login returns the name and password for a new connection; those of the URL, if any, if it is nil or returns no name. refused says
	// that Redis did not take the last ones.
	Login func(ctx context.Context, refused bool) (name, password string, err error)

	client     *redis.Client
	borrowed   bool          // client is the caller's
	reader     *redis.Client // for commands that block, which must not take the pool's connections; and for what nodes wrote, which is bounded
	refused    atomic.Bool   // Redis refused a login since the last one was asked for
	tasks      *asynqClient
	deliveries deliveries
	lookouts   lookouts
	offences   offences // of nodes
	unreadable limit.Lines
	closed     chan struct{}
	closing    sync.Once
	serving    sync.WaitGroup

	mu           sync.Mutex
	cursors      map[queue.Stream]*cursor
	held         map[queue.Stream][]queue.Message // received and not handed out yet
	meters       map[queue.Stream]*meter
	readMessages float64 // of a node in a second
	turn         int     // of the streams: who comes first in a reply gets most of its room
}

var _ queue.Queue = (*Queue)(nil)

// Silence stops go-redis from writing to stderr, for the whole process. Everything that it writes there is also in an error that this
// package returns or logs; while Redis is away it is many lines a second. It is for main functions.
func Silence() { logging.Disable() }

// Open returns the queue at a Redis URL, as Server.Open does.
func Open(rawURL string) (*Queue, error) { return Server{URL: rawURL}.Open() }

// New returns the queue at the Redis of client, which stays the caller's to close.
func New(client *redis.Client) *Queue {
	q := &Queue{borrowed: true}
	q.init(client)
	return q
}

func (q *Queue) init(client *redis.Client) {
	options := *client.Options()
	options.Dialer = dialBounded(options.Dialer)
	// A read that is tried again after its reply was lost would pass over what was in the reply.
	options.MaxRetries = -1
	q.client, q.reader = client, redis.NewClient(&options)
	q.closed = make(chan struct{})
	q.cursors, q.held, q.meters = map[queue.Stream]*cursor{}, map[queue.Stream][]queue.Message{}, map[queue.Stream]*meter{}
	q.readMessages = readMessages
	q.tasks = newAsynqClient(client)
	client.AddHook(burstHook{})
	client.AddHook(registryHook{})
	q.lookouts.client, q.lookouts.reader = client, q.reader
	client.AddHook(&q.lookouts)
	client.AddHook(&gatherHook{client: client, gone: q.deliveries.gone})
	for _, c := range []*redis.Client{q.client, q.reader} {
		c.AddHook(refusalHook{&q.refused})
	}
	client.AddHook(scriptHook{}) // the last one: what it asks again goes straight to Redis
}

// Close implements queue.Queue. A Serve that is still at work ends first: asynq does not survive that its client is closed.
func (q *Queue) Close() error {
	q.closing.Do(func() { close(q.closed) })
	q.serving.Wait()
	err := q.reader.Close()
	if !q.borrowed {
		err = errors.Join(err, q.client.Close())
	}
	return err
}

// Generation implements queue.Queue.
func (q *Queue) Generation(ctx context.Context) (string, error) {
	mark, err := q.client.Get(ctx, generationKey).Result()
	if errors.Is(err, redis.Nil) {
		return "", nil
	}
	return mark, away(ctx, err)
}

// SetGeneration implements queue.Queue.
func (q *Queue) SetGeneration(ctx context.Context, mark string) error {
	failpoint.Begin(ctx)
	err := q.client.Set(ctx, generationKey, mark, 0).Err()
	failpoint.End(ctx, err)
	return away(ctx, err)
}

func (q *Queue) log() *slog.Logger { return cmp.Or(q.Log, slog.New(slog.DiscardHandler)) }

// away makes an error of Redis or of the way to it the one error of this package. The end of the caller's own context stays what it is.
func away(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	e := &writ.Error{Code: writ.CodeQueueUnavailable, Message: fmt.Sprintf("Redis does not do its work: %v", err), Err: err}
	if known, ok := errors.AsType[*writ.Error](err); ok {
		e.Hint = known.Hint
	} else {
		e.Hint = explainAlert(err)
	}
	return e
}

// Package redisqueue implements the queue on Redis, with asynq for jobs and streams for messages. It does not depend on
// the content of tasks and messages. Redis is used for delivery only: data lost in it is delivered again from the
// journals at both ends.
//
// A node has the keys of asynq ("asynq:{<node>}:…") and two streams ("writ:{<node>}:in", "writ:{<node>}:out"). There is
// one key for the generation, so a Redis database belongs to one datacenter. A stream holds at most about 10,000
// messages. Beyond that the oldest messages are dropped, because a stream without a reader must not fill the memory of
// Redis. This is safe: results are sent until they are acknowledged, and a newer beat replaces an older one.
package redisqueue

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"writ/internal/failpoint"
	"writ/internal/limit"
	"writ/runner/queue"
)

const generationKey = "writ:generation"

// Queue is a queue on Redis. Create it with Open or New, and set its fields before the first call.
type Queue struct {
	// Log receives background events; may be nil.
	Log *slog.Logger
	// Login returns the name and password for a new connection. If it is nil or returns no name, the connection uses
	// the name and password of the URL, if any. refused is set if Redis rejected the name and password of the previous
	// call.
	Login func(ctx context.Context, refused bool) (name, password string, err error)

	*access
	*messenger
	*dispatcher
	borrowed    bool        // client belongs to the caller
	refused     atomic.Bool // Redis rejected a login since the last call of Login
	deliveries  deliveries
	prefetchers prefetchers
	unreadable  limit.Lines
	closed      chan struct{}
	closing     sync.Once
	serving     sync.WaitGroup
}

var _ queue.Queue = (*Queue)(nil)

// Silence stops go-redis from writing to stderr, for the whole process. Its messages are also in the errors that this
// package returns or logs; during an outage of Redis they are many lines a second. Silence is for main functions.
func Silence() { logging.Disable() }

// Open returns the queue at a Redis URL; see Server.Open.
func Open(rawURL string) (*Queue, error) { return Server{URL: rawURL}.Open() }

// New returns the queue at the Redis of client, which the caller must close. Only the connections that New itself
// opens, for data from nodes, limit replies.
func New(client *redis.Client) *Queue {
	q := &Queue{borrowed: true}
	q.init(client, maxReaders)
	return q
}

// maxReaders limits the concurrent calls of Receive of a process without a limit of its connections. A supervisor calls it
// for each group of its nodes.
const maxReaders = 1024

// init connects the parts of the queue. readers limits the connections for blocking commands.
func (q *Queue) init(client *redis.Client, readers int) {
	options := *client.Options()
	options.PoolSize = readers
	if q.borrowed {
		options.Dialer = dialBounded(options.Dialer)
	}
	waits := &interrupts{conns: map[*interruptible]bool{}}
	options.Dialer = waits.dialing(options.Dialer)
	// If a read were retried after its reply was lost, the messages in the reply would be skipped.
	options.MaxRetries = -1
	q.access = &access{client: client, reader: redis.NewClient(&options), waits: waits, log: q.log}
	q.messenger = newMessenger(q.access)
	q.dispatcher = &dispatcher{q.access, newAsynqClient(client)}
	q.closed = make(chan struct{})
	client.AddHook(burstHook{})
	client.AddHook(registryHook{})
	q.prefetchers.access = q.access
	client.AddHook(&q.prefetchers)
	client.AddHook(&endHook{client: client, gone: q.deliveries.gone, waiting: make(map[string][]*ending)})
	for _, c := range []*redis.Client{q.client, q.reader} {
		c.AddHook(refusalHook{&q.refused})
	}
	client.AddHook(scriptHook{}) // last, so that its retries go directly to Redis
}

// Close implements queue.Queue. It waits for a running Serve, because asynq does not tolerate a closed client.
func (q *Queue) Close() error {
	q.closing.Do(func() { close(q.closed) })
	q.serving.Wait()
	err := q.reader.Close()
	if !q.borrowed {
		err = errors.Join(err, q.client.Close())
	}
	return err
}

// maxMark limits the bytes of the generation that are read. writ writes only shorter marks.
const maxMark = 64

// Generation implements queue.Queue. A key of another type counts as a missing mark; SetGeneration replaces it.
func (q *Queue) Generation(ctx context.Context) (string, error) {
	mark, err := q.client.GetRange(ctx, generationKey, 0, maxMark).Result()
	if isWrongType(err) {
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

// Package queue carries opaque signed bytes between a supervisor and its nodes: jobs to a node's queue, messages to its `in`
// stream, results and beats from its `out` stream. It only delivers; losing everything in it loses nothing, because both ends
// remember. It must not know what the bytes mean. Three implementations pass queuetest: asynq on Redis, asynq on miniredis, memory.
package queue

import (
	"context"
	"time"

	"writ"
)

// MaxBody is how many bytes a task or message can have. A longer message may be dropped unread.
const MaxBody = 5 << 20

// Task is one delivery of a job.
type Task struct {
	ID    string    // "<run>-<seq>-<attempt>-<delivery>"; a second task with the same id is dropped
	Body  []byte    // signed
	EndBy time.Time // after this nobody needs the task any more
}

// Handler takes a task. It must return only when the task's outcome is remembered; whatever it returns or panics with, the task
// is not delivered again by the queue unless the process dies. ctx ends when the queue is told to stop, not at EndBy.
type Handler func(ctx context.Context, task Task)

// Direction tells the two streams of a node apart.
type Direction string

// The directions, as seen from the node.
const (
	In  Direction = "in"
	Out Direction = "out"
)

// Stream names a stream of a node.
type Stream struct {
	Node      writ.NodeID
	Direction Direction
}

// Message is an entry of a stream. It is delivered again until it is acknowledged.
type Message struct {
	Stream Stream
	ID     string // unique in its stream
	Body   []byte // signed
}

// Queue is the transport. All methods may be called concurrently. An error means that the transport is away, a
// *writ.Error with QUEUE_UNAVAILABLE; whether a Push or Send that returned an error took place is unknown, and repeating it is safe.
type Queue interface {
	// Push puts tasks into the queue of a node, in order. A task whose id is there already counts as pushed.
	Push(ctx context.Context, node writ.NodeID, tasks ...Task) error
	// Withdraw removes tasks that nobody took yet and returns the ids of those: no handler has seen them or ever will. The others may
	// run all the same.
	Withdraw(ctx context.Context, node writ.NodeID, ids ...string) (withdrawn []string, err error)
	// Missing returns those of ids that the node's queue does not hold in any form (waiting, or being worked on).
	Missing(ctx context.Context, node writ.NodeID, ids ...string) ([]string, error)
	// Serve hands the tasks of the node's queue to handle, at most slots at a time, until ctx ends and the running handlers returned.
	// It survives the transport's absence.
	Serve(ctx context.Context, node writ.NodeID, slots int, handle Handler) error

	// Send appends a message to a stream.
	Send(ctx context.Context, stream Stream, body []byte) error
	// Receive waits up to wait for messages on any of the streams and returns at most 100 of them, oldest first per stream; none is no
	// error. Messages that were received before by this reader and never acknowledged come again, first, when a process reads a
	// stream for the first time. There is one reader per stream. What is wrong with one stream keeps nobody from reading the others.
	Receive(ctx context.Context, wait time.Duration, streams ...Stream) ([]Message, error)
	// Acknowledge removes messages of Receive for good.
	Acknowledge(ctx context.Context, messages ...Message) error

	// Generation returns the mark that the supervisor set, "" if the transport lost it, and everything else with it.
	Generation(ctx context.Context) (string, error)
	// SetGeneration sets the mark.
	SetGeneration(ctx context.Context, mark string) error
	// Close frees what the transport holds. Nothing may be called afterwards.
	Close() error
}

// Package queue carries opaque signed bytes between a supervisor and its nodes. Jobs go to a node's queue and messages
// to its `in` stream. Results and beats (the status of the node) come from its `out` stream. A queue is for delivery
// only: a loss of all its data is harmless, because the supervisor and the nodes have their own records. The package
// must not depend on the meaning of the bytes. Three implementations pass queuetest: asynq on Redis, asynq on
// miniredis, memory.
package queue

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"writ"
)

// MaxBody limits the body of a task or message, in bytes. The reader may drop a longer message unread.
const MaxBody = 5 << 20

// Task is one delivery of a job.
type Task struct {
	ID    string    // "<run>-<seq>-<attempt>-<delivery>"; a second task with the same ID is dropped
	Body  []byte    // signed
	EndBy time.Time // the task is useless afterwards
}

// Handler handles a task. It must return only when the outcome of the task is recorded. After it returns or panics, the
// queue does not deliver the task again, unless the process dies. ctx ends when the queue stops, not at EndBy.
type Handler func(ctx context.Context, task Task)

// Handle calls h and recovers from a panic, which it logs with its stack: one bad task must not end the process and all
// other tasks.
func (h Handler) Handle(ctx context.Context, log *slog.Logger, task Task) {
	defer func() {
		if p := recover(); p != nil {
			log.ErrorContext(ctx, "handler panicked", "task", task.ID, "err", fmt.Sprint(p), "stack", string(debug.Stack()))
		}
	}()
	h(ctx, task)
}

// Direction distinguishes the two streams of a node.
type Direction string

// Directions, from the node's view.
const (
	In  Direction = "in"
	Out Direction = "out"
)

// Stream identifies a stream of a node.
type Stream struct {
	Node      writ.NodeID
	Direction Direction
}

// Message is an entry of a stream. If it is not acknowledged, the next process that reads the stream receives it again.
type Message struct {
	Stream Stream
	ID     string // unique in its stream
	Body   []byte // signed
}

// Queue is the transport. All methods may be called concurrently. An error means that the transport is unavailable: a
// *writ.Error with QUEUE_UNAVAILABLE. A Push or Send that returned an error may have taken effect; repeating it is
// safe.
type Queue interface {
	// Push adds tasks to the queue of a node, in order. A task whose ID already exists counts as added.
	Push(ctx context.Context, node writ.NodeID, tasks ...Task) error
	// Withdraw removes the tasks that no handler has received, and returns their IDs. These tasks will never run; the
	// tasks with the other ids may still run.
	Withdraw(ctx context.Context, node writ.NodeID, ids ...string) (withdrawn []string, err error)
	// Missing returns the tasks of ids that neither wait in the node's queue nor have a running handler.
	Missing(ctx context.Context, node writ.NodeID, ids ...string) ([]string, error)
	// Serve passes the tasks of the node's queue to handle, at most slots at a time, until ctx ends and the running
	// handlers have returned. It tolerates outages of the transport.
	Serve(ctx context.Context, node writ.NodeID, slots int, handle Handler) error

	// Send appends a message to a stream.
	Send(ctx context.Context, stream Stream, body []byte) error
	// Receive waits for messages on any of the streams, for at most the duration `wait`. It returns at most 100 messages,
	// oldest first per stream. An empty result is not an error. Each stream has one reading process at a time. When a
	// process reads a stream for the first time, it first gets the messages that the previous process received and did
	// not acknowledge. A defect of one stream does not affect the others.
	Receive(ctx context.Context, wait time.Duration, streams ...Stream) ([]Message, error)
	// Acknowledge permanently removes messages that Receive returned.
	Acknowledge(ctx context.Context, messages ...Message) error

	// Generation returns the mark that SetGeneration stored, or "" if the transport has lost its data since then.
	Generation(ctx context.Context) (string, error)
	// SetGeneration stores a mark, by which the supervisor detects a loss of the transport's data.
	SetGeneration(ctx context.Context, mark string) error
	// Close releases the resources of the queue. No method may be called afterwards.
	Close() error
}

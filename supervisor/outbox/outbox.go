// Package outbox sends a supervisor's messages to nodes: signed jobs, acknowledgements of results and control messages.
// Callers enqueue a message only after its state is committed. Package watch finds jobs that a crash or the queue lost,
// and makes their runs deliver them again. Nodes resend results until they are acknowledged.
package outbox

import (
	"context"
	"crypto/ed25519"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"writ"
	"writ/identity/envelope"
	"writ/internal/cbor"
	"writ/internal/wake"
	"writ/runner/queue"
	"writ/supervisor/mail"
	"writ/supervisor/ratelog"
)

const (
	// jobsPerSignature limits the jobs that share one signature. Signing costs more than the rest of a job, but every
	// job carries the digests of all jobs signed with it.
	jobsPerSignature = 16
	// nodesAtOnce limits the nodes that jobs are pushed to concurrently.
	nodesAtOnce = 16
)

// Config holds the dependencies of an Outbox. All fields are required.
type Config struct {
	Key      ed25519.PrivateKey
	Epoch    int64
	Queue    queue.Queue
	Warnings *ratelog.Log
	// Post delivers mail to a run: the jobs that were removed from the queue, and the jobs that may have started.
	Post func(run writ.RunID, m mail.Mail)
}

// Outbox collects the messages of committed steps and batches them by node. The jobs that wait share signatures. The
// jobs of a node also share a round trip to the queue. Create it with New.
type Outbox struct {
	Config

	mu         sync.Mutex
	jobs       map[writ.NodeID][]Job
	stops      []Stops // sent after the collected jobs
	sending    []Stops // taken from stops, and not sent completely
	acks       []mail.Arrival
	unanswered map[Question]bool
	wake       wake.Signal // signals jobs or stops
	ring       wake.Signal // signals acks
}

// Job is a job to send. The journal records it before it is sent.
type Job struct {
	Task  string
	Body  cbor.Raw // encoded job; the journal has the digest of these bytes
	EndBy time.Time
}

// Question asks which jobs of a run a lost node received.
type Question struct {
	Run  writ.RunID
	Node writ.NodeID
}

// New returns an empty outbox.
func New(config Config) *Outbox {
	return &Outbox{
		Config: config, jobs: make(map[writ.NodeID][]Job), unanswered: make(map[Question]bool),
		wake: wake.New(), ring: wake.New(),
	}
}

// Put adds the messages of a step: its jobs, the acknowledgements of its results, and its stops. Stops are sent after
// the jobs. Flush starts sending.
func (o *Outbox) Put(jobs map[writ.NodeID][]Job, results []mail.Arrival, stops Stops) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for node, more := range jobs {
		o.jobs[node] = append(o.jobs[node], more...)
	}
	if !stops.isEmpty() {
		o.stops = append(o.stops, stops)
	}
	o.acks = append(o.acks, results...)
}

// Flush wakes the senders if there are messages.
func (o *Outbox) Flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.jobs) > 0 || len(o.stops) > 0 {
		o.wake.Raise()
	}
	if len(o.acks) > 0 {
		o.ring.Raise()
	}
}

// Run sends jobs and stops until ctx ends.
func (o *Outbox) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-o.wake:
		}
		runtime.Gosched() // lets other steps of the same commit add their messages
		o.sendAll(ctx)
	}
}

// sendAll sends the collected jobs and stops.
func (o *Outbox) sendAll(ctx context.Context) {
	o.mu.Lock()
	jobs, stops := o.jobs, o.stops
	o.jobs, o.stops, o.sending = make(map[writ.NodeID][]Job), nil, stops
	o.mu.Unlock()
	var sending errgroup.Group
	sending.SetLimit(nodesAtOnce)
	tasks := sign(o, jobs)
	for node, all := range tasks {
		if len(tasks) == 1 {
			o.push(ctx, node, all)
			break
		}
		sending.Go(func() error {
			o.push(ctx, node, all)
			return nil
		})
	}
	_ = sending.Wait()
	for i, s := range stops {
		o.stop(ctx, s)
		o.mu.Lock()
		o.sending = stops[i+1:]
		o.mu.Unlock()
	}
}

// sign returns the tasks of jobs. Jobs share signatures also across nodes: a node sees the digests of other jobs, and
// accepts only jobs that name it.
func sign(o *Outbox, jobs map[writ.NodeID][]Job) map[writ.NodeID][]queue.Task {
	type addressed struct {
		node writ.NodeID
		Job
	}
	var all []addressed
	for node, some := range jobs {
		for _, job := range some {
			all = append(all, addressed{node, job})
		}
	}
	tasks := make(map[writ.NodeID][]queue.Task, len(jobs))
	for group := range slices.Chunk(all, jobsPerSignature) {
		records := make([]any, len(group))
		for i, job := range group {
			records[i] = job.Body
		}
		signed, _, err := envelope.SignEach(envelope.Job, o.Key, records...)
		if err != nil {
			o.Warnings.Warn(group[0].node, "sign jobs; trying again", "jobs", len(group), "err", err)
			continue
		}
		for i, job := range group {
			tasks[job.node] = append(tasks[job.node], queue.Task{ID: job.Task, Body: signed[i], EndBy: job.EndBy})
		}
	}
	return tasks
}

// push sends tasks to a node. If that fails, it logs the error; package watch finds the lost jobs later, and their runs
// deliver them again.
func (o *Outbox) push(ctx context.Context, node writ.NodeID, tasks []queue.Task) {
	if err := o.Queue.Push(ctx, node, tasks...); err != nil && ctx.Err() == nil {
		o.Warnings.Warn(node, "send jobs; trying again", "jobs", len(tasks), "err", err)
	}
}

// Control signs a control message with the supervisor's epoch and sends it to a node. If that fails, it logs the error
// and does not retry. If a node does not obey an order to stop, package watch wakes the run, whose step repeats the
// order.
//
//failpoint:none the caller names the message
func (o *Outbox) Control(ctx context.Context, message writ.Control) {
	message.Epoch = o.Epoch
	signed, err := envelope.Sign(envelope.Control, o.Key, message)
	if err == nil {
		err = o.Queue.Send(ctx, queue.Stream{Node: message.Node, Direction: queue.In}, signed)
	}
	if err != nil && ctx.Err() == nil {
		o.Warnings.Warn(message.Node, "send control message", "err", err)
	}
}

// IsUnanswered reports whether a question about a run waits for the answer of the queue: it was not asked yet, it is
// being asked, or the queue left it unanswered.
func (o *Outbox) IsUnanswered(run writ.RunID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	asks := func(s Stops) bool { return s.Run == run && len(s.Reclaim) > 0 }
	if slices.ContainsFunc(o.stops, asks) || slices.ContainsFunc(o.sending, asks) {
		return true
	}
	for q := range o.unanswered {
		if q.Run == run {
			return true
		}
	}
	return false
}

// TakeUnanswered removes and returns the questions that the queue left unanswered.
func (o *Outbox) TakeUnanswered() []Question {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := slices.Collect(maps.Keys(o.unanswered))
	clear(o.unanswered)
	return all
}

package supervisor

import (
	"context"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"writ"
	"writ/identity/envelope"
	"writ/internal/failpoint"
	"writ/internal/sleep"
	"writ/runner/queue"
	"writ/supervisor/mail"
)

const (
	// jobsPerSignature is how many jobs share a signature at most. To make and verify one costs more than all the rest of a job, but each job
	// carries the digests of those that were signed with it.
	jobsPerSignature = 16
	// acksWait is how long an acknowledgement waits for others. Nobody waits for it: it keeps a node from sending a result again, after
	// two seconds.
	acksWait = 50 * time.Millisecond
	// maxAcks bounds the acknowledgements of one message.
	maxAcks = 1000
	// nodesAtOnce is how many nodes are sent to at the same time.
	nodesAtOnce = 16
)

// dispatch sends what steps have for nodes, once it is on disk. What comes from many steps at a time goes together: one signature, and one
// round trip to the queue, for all jobs of a node that wait. What is lost with the process is noticed and sent again.
type dispatch struct {
	s *Supervisor

	mu   sync.Mutex
	jobs map[writ.NodeID][]outgoing
	then []func(ctx context.Context) // after the jobs that were there before
	acks []mail.Arrival
	wake chan struct{} // jobs or then
	ring chan struct{} // acks

	unanswered map[question]bool
}

// question is which jobs of a run a lost node took.
type question struct {
	run  writ.RunID
	node writ.NodeID
}

func newDispatch(s *Supervisor) *dispatch {
	return &dispatch{s: s, jobs: make(map[writ.NodeID][]outgoing), wake: make(chan struct{}, 1), ring: make(chan struct{}, 1)}
}

// put takes what a step has to send, and what it has to do behind that, nil if nothing. flush has it done.
func (d *dispatch) put(jobs map[writ.NodeID][]outgoing, results []mail.Arrival, then func(ctx context.Context)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for node, more := range jobs {
		d.jobs[node] = append(d.jobs[node], more...)
	}
	if then != nil {
		d.then = append(d.then, then)
	}
	d.acks = append(d.acks, results...)
}

// flush has done what was put.
func (d *dispatch) flush() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.jobs) > 0 || len(d.then) > 0 {
		rouse(d.wake)
	}
	if len(d.acks) > 0 {
		rouse(d.ring)
	}
}

// rouse leaves a token for whoever waits.
func rouse(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// run sends until ctx ends.
func (d *dispatch) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-d.wake:
		}
		runtime.Gosched() // lets the steps of the same commit join
		d.sendAll(ctx)
	}
}

// sendAll sends what is there.
func (d *dispatch) sendAll(ctx context.Context) {
	d.mu.Lock()
	jobs, then := d.jobs, d.then
	d.jobs, d.then = make(map[writ.NodeID][]outgoing), nil
	d.mu.Unlock()
	var sending errgroup.Group
	sending.SetLimit(nodesAtOnce)
	for node, all := range jobs {
		if len(jobs) == 1 {
			d.send(ctx, node, all)
			break
		}
		sending.Go(func() error {
			d.send(ctx, node, all)
			return nil
		})
	}
	_ = sending.Wait()
	for _, do := range then {
		do(ctx)
	}
}

// send signs and pushes the jobs of a node. What cannot be pushed now is delivered again by the watch.
func (d *dispatch) send(ctx context.Context, node writ.NodeID, jobs []outgoing) {
	tasks := make([]queue.Task, 0, len(jobs))
	var err error
	for group := range slices.Chunk(jobs, jobsPerSignature) {
		records := make([]any, len(group))
		for i, o := range group {
			records[i] = o.job
		}
		var signed [][]byte
		if signed, _, err = envelope.SignEach(envelope.Job, d.s.Key, records...); err != nil {
			break
		}
		for i, o := range group {
			tasks = append(tasks, queue.Task{ID: o.task, Body: signed[i], EndBy: o.endBy})
		}
	}
	if err == nil {
		err = d.s.Queue.Push(ctx, node, tasks...)
	}
	if err != nil && ctx.Err() == nil {
		d.s.warnings.Warn(node, "send jobs; trying again", "jobs", len(jobs), "err", err)
	}
}

// runAcks acknowledges until ctx ends.
func (d *dispatch) runAcks(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-d.ring:
		}
		_ = sleep.For(ctx, acksWait)
		d.mu.Lock()
		acks := d.acks
		d.acks = nil
		d.mu.Unlock()
		d.acknowledge(ctx, acks)
	}
}

// acknowledge tells the nodes that their results are on disk here, and the queue that the messages are done with.
func (d *dispatch) acknowledge(ctx context.Context, results []mail.Arrival) {
	keys := make(map[writ.NodeID][]writ.JobKey)
	messages := make([]queue.Message, 0, len(results))
	for _, a := range results {
		keys[a.Node] = append(keys[a.Node], a.Result.JobKey)
		if a.Message.ID != "" {
			messages = append(messages, a.Message)
		}
	}
	for node, all := range keys {
		for acks := range slices.Chunk(all, maxAcks) {
			d.s.control(failpoint.At(ctx, failpoint.AcksSent), writ.Control{Node: node, Acks: acks})
		}
	}
	if err := d.s.Queue.Acknowledge(failpoint.At(ctx, failpoint.ResultsDone), messages...); err != nil && ctx.Err() == nil {
		d.s.warnings.Warn("", "remove results from the queue; trying again", "err", err)
	}
}

// stopsWork returns what takes back what waits in the queues and is not to be done, and tells nodes to stop what they do of it; nil if there
// is nothing. It may be called during the run's next step.
func (t *step) stopsWork() func(ctx context.Context) {
	if len(t.cancels)+len(t.withdraw)+len(t.reclaim)+len(t.stale)+len(t.givenUp) == 0 {
		return nil
	}
	s, run, until := t.s, t.run.ID, t.run.Deadline.Add(time.Hour).UnixMilli()
	return func(ctx context.Context) {
		for node, resumes := range t.cancels {
			stop := writ.Control{Node: node, Cancels: map[writ.RunID]int64{run: until}}
			if resumes > 0 {
				stop.Resumes = map[writ.RunID]int{run: resumes}
			}
			s.control(failpoint.At(ctx, failpoint.CancelSent), stop)
		}
		for node, keys := range t.givenUp {
			s.control(failpoint.At(ctx, failpoint.CancelSent), writ.Control{Node: node, GivenUp: keys})
		}
		for node, tasks := range t.withdraw {
			taken, _ := s.withdrawTasks(ctx, run, node, tasks)
			s.postUnlessEmpty(run, mail.Mail{Withdrawn: taken})
		}
		for node, tasks := range t.reclaim {
			taken, err := s.withdrawTasks(ctx, run, node, tasks)
			if err != nil {
				s.dispatch.askAgain(run, node)
				tasks = taken // of the others it is not known
			}
			s.postUnlessEmpty(run, mail.Mail{Withdrawn: taken, MaybeStarted: keptOf(tasks, taken)})
		}
		for node, tasks := range t.stale {
			_, _ = s.withdrawTasks(ctx, run, node, tasks)
		}
	}
}

// withdrawTasks takes tasks of a run out of a node's queue. It returns those that no node took before, also with an error: then there may be more.
func (s *Supervisor) withdrawTasks(ctx context.Context, run writ.RunID, node writ.NodeID, tasks []mail.Delivery) (taken []mail.Delivery, err error) {
	if len(tasks) == 0 {
		return nil, nil
	}
	ids := make([]string, len(tasks))
	for i, task := range tasks {
		ids[i] = task.TaskID()
	}
	withdrawn, err := s.Queue.Withdraw(failpoint.At(ctx, failpoint.JobsWithdrawn), node, ids...)
	if err != nil && ctx.Err() == nil {
		s.warnings.Warn(node, "withdraw jobs", "run", run, "err", err)
	}
	for i, task := range tasks {
		if slices.Contains(withdrawn, ids[i]) {
			taken = append(taken, task)
		}
	}
	return taken, err
}

// keptOf returns the jobs of which a task was not taken back.
func keptOf(tasks, taken []mail.Delivery) (kept []writ.JobKey) {
	for _, task := range tasks {
		if !slices.Contains(taken, task) {
			kept = append(kept, task.Key)
		}
	}
	return slices.Compact(kept) // the tasks of a job are neighbours
}

// askAgain notes that the queue did not say which jobs of a run a lost node took. The watch has it asked again.
func (d *dispatch) askAgain(run writ.RunID, node writ.NodeID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.unanswered == nil {
		d.unanswered = make(map[question]bool)
	}
	d.unanswered[question{run, node}] = true
}

// asks reports whether something of a run is to be asked again.
func (d *dispatch) asks(run writ.RunID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for q := range d.unanswered {
		if q.run == run {
			return true
		}
	}
	return false
}

// takeUnanswered returns what is to be asked again, once.
func (d *dispatch) takeUnanswered() []question {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.unanswered
	d.unanswered = nil
	return slices.Collect(maps.Keys(all))
}

// postUnlessEmpty gives a run its mail if it says something of jobs that were taken back.
func (s *Supervisor) postUnlessEmpty(run writ.RunID, m mail.Mail) {
	if len(m.Withdrawn)+len(m.MaybeStarted) > 0 {
		s.steps.Post(run, m)
	}
}

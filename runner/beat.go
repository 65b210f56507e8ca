package runner

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"writ"
	"writ/identity"
	"writ/identity/envelope"
	"writ/internal/failpoint"
	"writ/supervisor/nodes"
)

// beatEvery is the interval between beats of a node with jobs. A node without jobs checks at this interval whether its
// state has changed.
const beatEvery = time.Second

// beat sends beats until ctx ends. While the node has jobs, it sends one every second. Otherwise it sends a beat after
// each change and each jump of the wall clock, and at the latest after Beat.Every seconds. Each beat contains the whole
// state, so a lost beat is not sent again.
func (n *incarnation) beat(ctx context.Context) {
	_, phase := nodes.BeatPhase(n.node)
	next := time.NewTimer(untilPhase(time.Now(), phase))
	defer next.Stop()
	var last writ.Beat // last beat that was sent
	var sent time.Time
	for sequence := int64(1); ; {
		n.store.probe(ctx)
		b := n.state(ctx, sequence)
		elapsed := time.Since(sent)
		jumped := time.Duration(b.Clock-last.Clock)*time.Millisecond - elapsed // jump of the wall clock
		if isNews(b, &last) || jumped.Abs() > beatEvery || elapsed > time.Duration(last.Every)*time.Second-beatEvery/2 {
			sequence++
			// Failures are logged by send.
			if n.link.send(failpoint.At(ctx, failpoint.BeatSent), envelope.Beat, b) == nil {
				last, sent = *b, time.Now()
				n.counts.sent.Note(n.now())
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-next.C:
			next.Reset(untilPhase(time.Now(), phase))
		}
	}
}

// untilPhase returns the time until the next beat. It is at least an eighth of a second, because a timer may end
// slightly before its time on the wall clock.
func untilPhase(now time.Time, phase time.Duration) time.Duration {
	next := now.Truncate(beatEvery).Add(phase)
	for next.Sub(now) < beatEvery/8 {
		next = next.Add(beatEvery)
	}
	return next.Sub(now)
}

// isNews reports whether a beat must be sent at once: the node has or had jobs, reports inventories, or changed its
// epoch, beat interval or health.
func isNews(now, last *writ.Beat) bool {
	return len(now.Active) > 0 || len(last.Active) > 0 || len(now.Inventories) > 0 || now.Epoch != last.Epoch ||
		now.Every != last.Every || !reflect.DeepEqual(now.Health, last.Health)
}

// everyOf returns the seconds between two beats of a node: 1 if the node has jobs or no valid roster (at is nil).
// Otherwise it is nodes.MaxBeatSeconds, or a third of at.Silence.Silent if that is shorter, but at least 1.
func everyOf(jobs int, at *identity.Datacenter) int64 {
	switch {
	case jobs > 0 || at == nil:
		return 1
	case at.Silence == (identity.Silence{}):
		return nodes.MaxBeatSeconds
	}
	return min(max(int64(at.Silence.Silent/(3*time.Second)), 1), nodes.MaxBeatSeconds)
}

// state builds a beat with the current state of the node.
func (n *incarnation) state(ctx context.Context, sequence int64) *writ.Beat {
	now := n.now()
	b := &writ.Beat{
		Health: n.health(now),
		Node:   n.node, Boot: n.boot, Incarnation: n.number, Sequence: sequence, Clock: now.UnixMilli(),
		Epoch: n.epochs.highest(), Active: n.desk.keys(), Progress: n.desk.progress(), Inventories: n.inventory(ctx),
	}
	at, _ := n.member.Trusted(now) // without a valid roster, the health has a fault
	b.Every = everyOf(len(b.Active), at)
	return b
}

// health returns the health of the node, for a beat.
func (n *incarnation) health(now time.Time) writ.Health {
	h := writ.Health{
		Slots: n.slots, Capacity: n.keeper.remnants.offered(n.capacity), Drivers: n.about, Version: n.version,
		Fault: n.faultText(now),
		Stuck: n.desk.stuck(),
	}
	if n.transfers != nil {
		h.Transfers = n.transfers.Address
	}
	return h
}

// faultText returns why the node refuses work at the moment, or "".
func (n *incarnation) faultText(now time.Time) string {
	if n.stopping.Load() {
		return errShutdown.Error()
	}
	if _, err := n.member.Trusted(now); err != nil {
		return err.Error()
	}
	if err := n.store.get(); err != nil {
		return "the node's journal cannot be written: " + err.Error()
	}
	if stuck := n.desk.stuck(); len(stuck) >= n.slots {
		return fmt.Sprintf("the drivers of %d jobs ignore their deadlines, for example the driver of job %s", len(stuck),
			stuck[0].JobKey)
	}
	return ""
}

// maxAsked limits the runs whose inventory one beat contains. For further runs, the supervisor asks again.
const maxAsked = 64

// questions holds the runs whose inventory the supervisor has asked for.
type questions struct {
	mu   sync.Mutex
	runs []writ.RunID
}

func (q *questions) add(runs []writ.RunID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, run := range runs {
		if len(q.runs) < maxAsked && !slices.Contains(q.runs, run) {
			q.runs = append(q.runs, run)
		}
	}
}

func (q *questions) take() []writ.RunID {
	q.mu.Lock()
	defer q.mu.Unlock()
	runs := q.runs
	q.runs = nil
	return runs
}

// inventory returns, for each run that the supervisor asked for, its calls that the node has in the journal or on the
// desk. If the calls of a run cannot be read, the run is omitted and the supervisor asks again. The desk is read before
// the journal, because a job that has left the desk has its result in the journal. No job of an earlier epoch starts
// after the epoch was raised.
func (n *incarnation) inventory(ctx context.Context) (all []writ.Inventory) {
	runs := n.questions.take()
	if len(runs) == 0 {
		return nil
	}
	epoch, working := n.epochs.highest(), n.desk.keys()
	for _, run := range runs {
		calls, err := n.journal.CallsOf(ctx, run)
		if n.store.note(ctx, err) != nil {
			continue
		}
		for _, key := range working {
			if key.Run == run {
				calls = append(calls, key.Seq)
			}
		}
		slices.Sort(calls)
		all = append(all, writ.Inventory{Run: run, Epoch: epoch, Calls: slices.Compact(calls)})
	}
	return all
}

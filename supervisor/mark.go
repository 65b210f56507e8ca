package supervisor

import (
	"context"
	"slices"
	"sync"
	"time"

	"writ"
	"writ/internal/sleep"
	"writ/supervisor/journal"
)

// Only what the datacenter itself kept, its nodes, and its operator say that a journal came from a backup: a mark
// beside the supervisor's key, the epochs that most nodes have obeyed, and `writ restore`. A coordinator could say it
// at any time, and have every run wait.

// Mark is what a supervisor keeps beside its key of its journal, which may be in a database somewhere else.
type Mark struct {
	journal.Head
	Restored bool `json:"-"` // an operator said that the journal came from a backup
}

// Marks keeps the mark.
type Marks interface {
	// Read returns the mark, the zero value if there is none.
	Read() (Mark, error)
	// Keep replaces it, but what an operator said.
	Keep(head journal.Head) error
	// Heard notes that what an operator said was heard.
	Heard() error
}

// keepMarkEvery is the interval at which the mark is updated from the journal.
const keepMarkEvery = 10 * time.Second

// readMark compares the journal with the mark before an epoch begins.
func (s *Supervisor) readMark(ctx context.Context) (Mark, error) {
	if s.Marks == nil {
		return Mark{}, nil
	}
	mark, err := s.Marks.Read()
	if err != nil {
		return mark, err
	}
	head, err := s.Journal.Head(ctx)
	if err == nil && (mark.Restored || head.Behind(mark.Head)) {
		s.Log.Warn("journal restored from a backup: its runs wait until every node has reported its inventory",
			"epoch", head.Epoch, "event", head.Seq, "epoch_seen", mark.Epoch, "event_seen", mark.Seq,
			"said_by_operator", mark.Restored)
		s.Journal.CameFromBackup()
	}
	return mark, err
}

// keepMark updates the mark from the journal until ctx ends, and retries after errors. An outdated mark only detects
// fewer restores.
func (s *Supervisor) keepMark(ctx context.Context) error {
	if s.Marks == nil {
		return nil
	}
	var kept journal.Head
	failing := false
	for ctx.Err() == nil {
		head, err := s.Journal.Head(ctx)
		if err == nil && head != kept {
			if err = s.Marks.Keep(head); err == nil {
				kept = head
			}
		}
		if err != nil && !failing && ctx.Err() == nil {
			s.Log.Warn("update the mark beside the key; trying again", "err", err)
		}
		failing = err != nil
		_ = sleep.For(ctx, keepMarkEvery)
	}
	return nil
}

// unknownEpochs are those that nodes have obeyed and the journal did not give, by node.
type unknownEpochs struct {
	mu    sync.Mutex
	nodes map[writ.NodeID]int64
	done  bool // they have started a reconciliation
}

// note takes an epoch that a node has obeyed and that the journal did not give. It is news the first time; most is true
// once, when most of the nodes that serve say such a thing.
func (a *unknownEpochs) note(node writ.NodeID, epoch int64, serving []writ.NodeID) (news, most bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, known := a.nodes[node]
	if a.nodes == nil {
		a.nodes = make(map[writ.NodeID]int64)
	}
	a.nodes[node] = epoch
	n := 0
	for _, id := range serving {
		if _, said := a.nodes[id]; said {
			n++
		}
	}
	most = !a.done && 2*n > len(serving) && slices.Contains(serving, node)
	a.done = a.done || most
	return !known, most
}

// hearEpoch takes the epoch that a node has obeyed. One that this journal never gave was another supervisor's, with a
// journal of which this one is a copy from before. One node alone may lie, and then it is the only one to be believed
// less; most of them are believed.
func (s *Supervisor) hearEpoch(ctx context.Context, node writ.NodeID, epoch int64) {
	if epoch == 0 || s.Journal.Gave(epoch) {
		return
	}
	if time.UnixMilli(epoch).Before(s.Journal.ReconcilesUntil()) {
		// it began before this journal was restored, which is known
		return
	}
	news, most := s.unknownEpochs.note(node, epoch, s.fleet.Members.Serving())
	if news {
		s.Log.Warn("a node has obeyed a supervisor of which the journal does not know. "+
			"If the journal came from a backup, stop the supervisor and say so with `writ restore --mark`",
			"node", s.fleet.Members.Name(node), "epoch", epoch)
	}
	if !most {
		return
	}
	if err := s.Journal.MarkRestored(ctx); err != nil {
		s.Log.Warn("mark the journal as restored, as most nodes report", "err", err)
		s.unknownEpochs.retry()
		return
	}
	s.Log.Warn("journal restored from a backup, as most nodes report: its runs wait until every node has reported its inventory")
}

// retry lets the next such epoch start a reconciliation: the last one could not be written.
func (a *unknownEpochs) retry() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.done = false
}

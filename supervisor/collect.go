package supervisor

import (
	"context"
	"time"

	"writ"
	"writ/internal/failpoint"
	"writ/internal/sleep"
	"writ/runner/queue"
	"writ/supervisor/fleet"
	"writ/supervisor/mail"
)

// Limits of the beats of a node. A node sends one per second; a burst arrives after the queue was unavailable. Each
// beat may cost an answer.
const (
	beatsPerSecond = 4
	beatsAtOnce    = 60
)

// receiveWait is the longest wait of one receive. A node that joins is included in the next receive.
const receiveWait = time.Second

// collect receives the messages of nodes until ctx ends: results for runs, beats for the fleet.
func (s *Supervisor) collect(ctx context.Context) error {
	away := false // log only the change
	for ctx.Err() == nil {
		nodes := s.fleet.Members.Serving()
		if len(nodes) == 0 {
			s.rounds.Add(1) // an empty round counts as complete
			_ = sleep.For(ctx, receiveWait)
			continue
		}
		streams := make([]queue.Stream, len(nodes))
		for i, node := range nodes {
			streams[i] = queue.Stream{Node: node, Direction: queue.Out}
		}
		messages, err := s.Queue.Receive(ctx, receiveWait, streams...)
		if err != nil {
			if ctx.Err() == nil && !away {
				s.Log.Warn("queue unavailable: no message of a node arrives", "err", err)
				away = true
			}
			_ = sleep.For(ctx, receiveWait)
			continue
		}
		if away {
			s.Log.Info("queue available again")
			away = false
		}
		var done []queue.Message
		for _, m := range messages {
			if !s.hear(ctx, m) {
				done = append(done, m)
			}
		}
		s.rounds.Add(1)
		if err := s.Queue.Acknowledge(failpoint.At(ctx, failpoint.BeatsDone), done...); err != nil && ctx.Err() == nil {
			s.warnings.Warn("", "remove beats from the queue", "err", err)
		}
	}
	return nil
}

// hearBeat applies a beat: jobs that started, their progress, and inventories for runs that are reconciled. A beat with
// an epoch older than this supervisor's is not applied; the node is sent the current epoch instead. Otherwise an
// attacker with access to Redis could record the beats of a node and replay them after the node's death.
func (s *Supervisor) hearBeat(ctx context.Context, node writ.NodeID, said *writ.Beat) {
	b := *said
	if b.Node != node {
		s.warnings.Refused(node, "node sent the beat of another node", ofAnother(b.Node))
		s.accounts.countUseless(node, extraBeats, 1)
		return
	}
	if _, ok := s.beats.Reserve(string(node), 1, 0); !ok {
		s.accounts.countUseless(node, extraBeats, 1)
		if b.Epoch >= s.epoch { // older beats queued up while no supervisor ran
			s.warnings.Refused(node, "node sends too many beats; some are dropped",
				tooOften("%d a second are heard", beatsPerSecond))
		}
		return
	}
	if s.fleet.Presence.IsCopied(b, s.Now(), time.Now()) {
		s.warnings.Refused(node, "two machines speak as one node", fleet.ErrCopied)
		s.accounts.block(node, fleet.ErrCopied)
		return
	}
	s.hearEpoch(ctx, node, b.Epoch)
	if b.Epoch < s.epoch { // the beat may be a replay: only a beat with this epoch proves that the node is alive
		s.outbox.Control(failpoint.At(ctx, failpoint.EpochSent), writ.Control{Node: node, Roster: s.roster.Load().Version})
		return
	}
	started, progress, fresh := s.fleet.Presence.Beat(b, s.epoch, s.Now(), time.Now())
	if !fresh {
		return
	}
	for _, key := range started {
		s.steps.PostFrom(node, key.Run, mail.Mail{Started: []mail.Active{{Key: key, Node: node}}})
	}
	for _, p := range progress {
		s.steps.PostFrom(node, p.Run, mail.Mail{Progress: []mail.Progress{{Key: p.JobKey, Node: node, Text: p.Text}}})
	}
	s.hearInventories(node, said.Inventories)
	if asked := s.inventories.Unanswered(node); len(asked) > 0 {
		s.outbox.Control(failpoint.At(ctx, failpoint.RunsAsked), writ.Control{Node: node, Asked: asked})
	}
}

// hearInventories handles the inventories of a node. An inventory for an earlier epoch is ignored, because the earlier
// supervisor may have sent more calls since.
func (s *Supervisor) hearInventories(node writ.NodeID, all []writ.Inventory) {
	for _, r := range all {
		if r.Epoch == s.epoch && s.inventories.Add(node, r.Run, r.Calls) {
			s.steps.Post(r.Run, mail.Mail{})
		}
	}
}

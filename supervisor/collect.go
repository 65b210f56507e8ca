package supervisor

import (
	"context"
	"time"

	"writ"
	"writ/internal/failpoint"
	"writ/internal/sleep"
	"writ/runner/queue"
	"writ/supervisor/mail"
)

// beatsPerSecond is how many beats of a node are heard, and beatsAtOnce how many at once, as after the queue was away. Nodes send one a second, and
// each may cost an answer.
const (
	beatsPerSecond = 4
	beatsAtOnce    = 60
)

// receiveWait is how long one look at the out streams waits; a node that joins is listened to after this at the latest.
const receiveWait = time.Second

// collect takes what nodes send: results for the runs that wait for them, beats for the fleet.
func (s *Supervisor) collect(ctx context.Context) error {
	away := false // said once, not at every look
	for ctx.Err() == nil {
		nodes := s.fleet.serving()
		if len(nodes) == 0 {
			s.rounds.Add(1) // nobody is left unheard
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

// hearBeat takes a beat: jobs that began, how far they are, and what the node has of runs that are reconciled. One that does not know our epoch yet counts
// for nothing, and its node is told the epoch: whoever has Redis can keep what a node said, and say it again when that is dead.
func (s *Supervisor) hearBeat(ctx context.Context, node writ.NodeID, said *writ.Beat) {
	b := *said
	if b.Node != node {
		s.warnings.Refused(node, "node sent the beat of another node", ofAnother(b.Node))
		s.accounts.countUseless(node, extraBeats, 1)
		return
	}
	if _, ok := s.beats.Reserve(string(node), 1, 0); !ok {
		s.accounts.countUseless(node, extraBeats, 1)
		if b.Epoch >= s.epoch { // else they waited while there was no supervisor
			s.warnings.Refused(node, "node sends too many beats; some are dropped", tooOften("%d a second are heard", beatsPerSecond))
		}
		return
	}
	if s.fleet.isCopied(b, s.Now(), time.Now()) {
		s.warnings.Refused(node, "two machines speak as one node", errCopied)
		s.accounts.block(node, errCopied)
		return
	}
	s.hearEpoch(ctx, node, b.Epoch)
	if b.Epoch < s.epoch { // it may be an old one: only one that knows this supervisor proves that its node lives now
		s.outbox.Control(failpoint.At(ctx, failpoint.EpochSent), writ.Control{Node: node, Roster: s.roster.Load().Version})
		return
	}
	started, progress, fresh := s.fleet.beat(b, s.epoch, s.Now(), time.Now())
	if !fresh {
		return
	}
	for _, key := range started {
		s.steps.PostFrom(node, key.Run, mail.Mail{Started: []mail.Active{{Key: key, Node: node}}})
	}
	for _, p := range progress {
		s.steps.PostFrom(node, p.Run, mail.Mail{Progress: []mail.Progress{{Key: p.JobKey, Node: node, Text: p.Text}}})
	}
	s.hearInventories(node, b.Inventories)
	if asked := s.inventories.unanswered(node); len(asked) > 0 {
		s.outbox.Control(failpoint.At(ctx, failpoint.RunsAsked), writ.Control{Node: node, Asked: asked})
	}
}

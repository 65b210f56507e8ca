package supervisor

import (
	"bytes"
	"context"
	"slices"
	"time"

	"writ"
	"writ/identity"
	"writ/identity/envelope"
	"writ/internal/failpoint"
	"writ/supervisor/journal"
	"writ/supervisor/nodes"
)

// A node that a person has signed to be lost is gone: it is removed for good, and what it had may be made anew on other nodes. If the signer
// was wrong, or the machine comes back, two nodes have the same. So whoever has the key of such a node is told to stop everything that it runs
// before its process ends, and says so. That what holds data stays, and how it is removed, is listed with the node.

// Fence implements nodes.Backend. It is given to anybody who asks: the answer counts for the node with that key alone.
func (s *Supervisor) Fence(_ context.Context, node writ.NodeID, nonce []byte) ([]byte, error) {
	if len(nonce) != identity.NonceSize {
		return nil, writ.Errorf(writ.CodeBadRequest, "a nonce has %d bytes", identity.NonceSize)
	}
	n := s.fleet.Record(node)
	if n == nil || !n.Gone {
		return nil, writ.Errorf(writ.CodeNotFound, "no person has signed that the node %s is lost", node)
	}
	if n.Lost == nil {
		return nil, writ.Errorf(writ.CodeNotFound, "the node %s was lost when the signature was not kept yet", n.Name)
	}
	return s.membership(envelope.Fence, n, nonce)
}

// fenceAgain is how long a node that is gone waits, at least, from one answer to the next: its own runner waits longer. Each answer is an event.
const fenceAgain = time.Second

// Fenced implements nodes.Backend. What a node that is gone says is kept as evidence, and nothing follows from it but what people are shown.
func (s *Supervisor) Fenced(ctx context.Context, node writ.NodeID, signed []byte) error {
	known := s.fleet.Record(node)
	if known == nil || !known.Gone {
		return nodes.NotGone(node)
	}
	answers, _, err := envelope.Open[nodes.FenceAnswer](envelope.Fenced, signed, envelope.Only(known.PublicKey))
	if err != nil {
		return err
	}
	if len(answers) != 1 || answers[0].Node != node || answers[0].Datacenter != s.Datacenter {
		return writ.Errorf(writ.CodeBadRequest, "what the node %s signed is about another one", known.Name)
	}
	var n *journal.Node
	news := false
	err = s.Journal.Write(failpoint.At(ctx, failpoint.FenceTaken), func(tx *journal.Tx) (err error) {
		if n, err = tx.Node(node); err != nil {
			return err
		}
		if n == nil { // the database does not give it back
			return writ.Errorf(writ.CodeNotFound, "there is no node %s in the journal", node)
		}
		var before time.Time
		if n.Fence != nil {
			before = n.Fence.Answered
		}
		if news = takeFenceAnswer(n, answers[0], signed); !news {
			return nil // an earlier one, or this one again
		}
		if passed := tx.Now.Sub(before); passed >= 0 && passed < fenceAgain {
			return writ.Errorf(writ.CodeRateLimited, "the node %s answered %s ago", n.Name, passed)
		}
		n.Fence.Answered = tx.Now
		shown := n.Node
		tx.AddEvents(writ.Event{Node: &shown})
		return tx.PutNode(n)
	})
	if err != nil || !news {
		return err
	}
	s.fleet.put(*n)
	if times, say := s.refusals.Say("fence "+string(node), time.Now()); say { // it may answer each second
		s.Log.Info("lost node returned and stopped its resources",
			"node", n.Name, "stopped", n.Fence.Stopped, "open", len(n.Fence.Open), "kept", len(n.Orphans), "times", times)
	}
	return nil
}

// takeFenceAnswer writes into the record of a node what it answered, and reports false if it has that already, or a later answer.
func takeFenceAnswer(n *journal.Node, a nodes.FenceAnswer, signed []byte) bool {
	if a.Round <= n.FenceRound || bytes.Equal(signed, n.FenceAnswer) {
		return false
	}
	if n.Fence == nil { // an earlier version removed it
		n.Fence = &writ.Fence{}
	}
	fence := *n.Fence // what was told has the old one
	n.FenceAnswer, n.FenceRound = slices.Clone(signed), a.Round
	fence.Stopped = min(len(a.Stopped), nodes.MaxFenced)
	fence.Open = nil
	for _, text := range a.Open[:min(len(a.Open), nodes.MaxFenced)] {
		fence.Open = append(fence.Open, clip(text, maxText))
	}
	n.Fence = &fence
	n.Orphans = moderateOrphans(a.Kept)
	return true
}

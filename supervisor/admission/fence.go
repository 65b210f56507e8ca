package admission

import (
	"bytes"
	"context"
	"slices"
	"time"

	"writ"
	"writ/identity/envelope"
	"writ/internal/clip"
	"writ/internal/failpoint"
	"writ/supervisor/bound"
	"writ/supervisor/journal"
	"writ/supervisor/nodes"
)

// A signed statement that a node is lost removes the node permanently, and its resources may be created again on other
// nodes. If the signer was wrong, or the machine returns, two nodes have the same resources. Therefore the supervisor
// gives the holder of the removed node's key a signed order to stop all resources of the node. The runner of the node
// obeys before it exits, and sends a signed answer. Resources that hold data are kept. They are listed as orphans of
// the node, with the commands that remove them.

// Fence implements nodes.Backend. Any client may request the order: it is valid only for the node with that key.
func (d *Directory) Fence(_ context.Context, node writ.NodeID, nonce []byte) ([]byte, error) {
	if err := checkNonce(nonce); err != nil {
		return nil, err
	}
	n := d.site.Fleet.Members.Record(node)
	if n == nil || !n.Gone {
		return nil, writ.Errorf(writ.CodeNotFound, "no person has signed that the node %s is lost", node)
	}
	if n.Lost == nil {
		return nil, writ.Errorf(writ.CodeNotFound,
			"the node %s was declared lost under a version that did not store the signature", n.Name)
	}
	return d.site.membership(envelope.Fence, n, nonce)
}

// fenceAgain is the minimum time between two answers of a removed node, because each answer is an event. An unmodified
// runner waits longer.
const fenceAgain = time.Second

// Fenced implements nodes.Backend. It stores the answer of a removed node as evidence. The answer is only displayed and
// has no other effect.
func (d *Directory) Fenced(ctx context.Context, node writ.NodeID, signed []byte) error {
	known := d.site.Fleet.Members.Record(node)
	if known == nil || !known.Gone {
		return nodes.NotGone(node)
	}
	answers, _, err := envelope.Open[nodes.FenceAnswer](envelope.Fenced, signed, envelope.Only(known.PublicKey))
	if err != nil {
		return err
	}
	if len(answers) != 1 || answers[0].Node != node || answers[0].Datacenter != d.site.Datacenter {
		return writ.Errorf(writ.CodeBadRequest, "the answer signed by the node %s is about another node", known.Name)
	}
	var n *journal.Node
	news := false
	err = d.site.Journal.Write(failpoint.At(ctx, failpoint.FenceTaken), func(tx *journal.Tx) (err error) {
		if n, err = tx.Node(node); err != nil {
			return err
		}
		if n == nil || n.Fence == nil { // the database has lost the record, or returns an older record
			return writ.Errorf(writ.CodeNotFound, "the journal does not have the loss of the node %s", node)
		}
		before := n.Fence.Answered
		if news = applyFenceAnswer(n, answers[0], signed); !news {
			return nil // an earlier answer, or a repetition
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
	d.site.Fleet.Members.Put(*n)
	if times, say := d.site.Refusals.Say("fence "+string(node), time.Now()); say { // the node may answer every second
		d.site.Log.Info("lost node returned and stopped its resources",
			"node", n.Name, "stopped", n.Fence.Stopped, "open", len(n.Fence.Open), "kept", len(n.Orphans), "times", times)
	}
	return nil
}

// applyFenceAnswer writes an answer into the record of its node. If the record has this answer or a later one, it
// reports false and leaves the record unchanged.
func applyFenceAnswer(n *journal.Node, a nodes.FenceAnswer, signed []byte) bool {
	if a.Round <= n.FenceRound || bytes.Equal(signed, n.FenceAnswer) {
		return false
	}
	fence := *n.Fence // copied, because events share the old value
	n.FenceAnswer, n.FenceRound = slices.Clone(signed), a.Round
	fence.Stopped = min(len(a.Stopped), nodes.MaxFenced)
	fence.Open = nil
	for _, text := range a.Open[:min(len(a.Open), nodes.MaxFenced)] {
		fence.Open = append(fence.Open, clip.Text(text, bound.MaxText))
	}
	n.Fence = &fence
	n.Orphans = bound.Orphans(a.Kept)
	return true
}

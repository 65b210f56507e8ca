package supervisor

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"slices"

	"writ"
	"writ/identity/envelope"
	"writ/runner/queue"
	"writ/supervisor/fleet"
	"writ/supervisor/journal"
	"writ/supervisor/mail"
)

// messageHandler verifies and handles one message of a node. It returns stays if the message must stay in the queue
// until its results are on disk. An error means that the message was rejected, without any effect.
type messageHandler func(ctx context.Context, s *Supervisor, m queue.Message, keys envelope.Keys) (stays bool, err error)

// messageKinds is the table of the messages that nodes send, the most frequent ones first.
var messageKinds = []struct {
	kind   envelope.Kind
	handle messageHandler
}{
	{envelope.Beat, handleEach(envelope.Beat, (*Supervisor).hearBeat)},
	{envelope.Result, handleResults},
	{envelope.Report, handleEach(envelope.Report, (*Supervisor).hearReport)},
	{envelope.Host, handleEach(envelope.Host, (*Supervisor).hearHost)},
	{envelope.Log, handleEach(envelope.Log, (*Supervisor).hearLog)},
}

// handleEach returns a handler that opens envelopes of a kind and passes each record on.
func handleEach[T any](kind envelope.Kind, handle func(*Supervisor, context.Context, writ.NodeID, *T)) messageHandler {
	return func(ctx context.Context, s *Supervisor, m queue.Message, keys envelope.Keys) (bool, error) {
		records, _, err := envelope.Open[T](kind, m.Body, keys)
		for i := range records {
			handle(s, ctx, m.Stream.Node, &records[i])
		}
		return false, err
	}
}

// hear handles one message of a node. It returns stays if the message must stay in the queue until its results are on
// disk. A message that cannot be opened is logged and counts against its node.
func (s *Supervisor) hear(ctx context.Context, m queue.Message) (stays bool) {
	stays, err := s.handleMessage(ctx, m)
	if err != nil {
		s.warnings.Refused(m.Stream.Node, "open message of a node; it is discarded", err)
		s.accounts.countUseless(m.Stream.Node, unreadable, 1)
	}
	return stays
}

// handleMessage passes a message to the handler of its kind.
func (s *Supervisor) handleMessage(ctx context.Context, m queue.Message) (stays bool, err error) {
	keys, kind := keysOf(s.fleet.Members, m.Stream.Node), envelope.KindOf(m.Body)
	if kind == "" {
		return s.handleUnnamed(ctx, m, keys)
	}
	for _, row := range messageKinds {
		if row.kind == kind {
			return row.handle(ctx, s, m, keys)
		}
	}
	return false, writ.Errorf(writ.CodeSignatureInvalid, "a node sends no messages of the kind %q", kind)
}

// keysOf returns a lookup function for opening envelopes of node. It accepts only the key of that node, and only if the
// node is approved.
func keysOf(members *fleet.Members, node writ.NodeID) envelope.Keys {
	return func(id envelope.KeyID) (ed25519.PublicKey, error) {
		n := members.Record(node)
		if n == nil || n.Admission != writ.AdmissionApproved || envelope.IDOf(n.PublicKey) != id {
			return nil, fmt.Errorf("key %s is not the key of node %s", id, node)
		}
		return n.PublicKey, nil
	}
}

// handleUnnamed handles a message of an earlier runner, which names no kind: its kind is the one for which its
// signature is valid.
func (s *Supervisor) handleUnnamed(ctx context.Context, m queue.Message, keys envelope.Keys) (stays bool, err error) {
	for _, row := range messageKinds {
		stays, err = row.handle(ctx, s, m, keys)
		if writ.CodeOf(err) != writ.CodeSignatureInvalid {
			break
		}
	}
	return stays, err
}

// handleResults passes the results of a message to their runs.
func handleResults(_ context.Context, s *Supervisor, m queue.Message, keys envelope.Keys) (stays bool, err error) {
	results, _, err := envelope.Open[writ.Result](envelope.Result, m.Body, keys)
	if err != nil {
		return false, err
	}
	frame := &journal.Frame{Digest: writ.DigestOf(m.Body), Signed: m.Body}
	for _, r := range results {
		if !slices.Contains(frame.Runs, r.Run) {
			frame.Runs = append(frame.Runs, r.Run)
		}
	}
	for i, r := range results {
		a := mail.Arrival{Result: r, Node: m.Stream.Node, Frame: frame}
		if i == len(results)-1 {
			a.Message = m // acknowledged with its last result; the node sends the others again if they get lost
		}
		stays = s.steps.PostResult(a)
	}
	return stays, nil
}

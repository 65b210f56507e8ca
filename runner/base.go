package runner

import (
	"context"
	"crypto/ed25519"
	"log/slog"
	"time"

	"writ"
	"writ/identity/envelope"
	"writ/internal/clip"
	"writ/internal/limit"
	"writ/runner/journal"
	"writ/runner/member"
	"writ/supervisor/nodes"
)

// base holds the state that the parts of an incarnation share.
type base struct {
	member *member.Member
	api    nodes.Backend
	node   writ.NodeID
	now    func() time.Time // wall clock
	log    *slog.Logger
	lines  limit.Lines // rate-limited log for events that others cause
	counts *counts

	number int64 // see journal.Begin
	boot   string

	journal *journal.Journal
	store   *nodeStore
	link    *link
	epochs  *epochs
	rosters *rosterWatch
}

// drop counts and logs an ignored message.
func (n *base) drop(ctx context.Context, what, id string, err error) {
	code := writ.CodeOf(err)
	n.counts.drops.Add(Drop{what, code.Info().Code})
	// Rate-limited: an attacker with access to Redis can send any number.
	if times, say := n.lines.Say(what+" "+string(code), time.Now()); say {
		n.log.WarnContext(ctx, "dropped a "+what, "id", clip.OneLine(id, maxSentence), "code", code, "err", err, "times", times)
	}
}

// supervisorKey returns the key of an envelope's signer. An unknown key may belong to a roster that the node does not
// have yet, so it also requests newer rosters.
func (n *base) supervisorKey(id envelope.KeyID) (ed25519.PublicKey, error) {
	key, err := n.member.SupervisorKey(id)
	if err != nil {
		n.rosters.want(0)
	}
	return key, err
}

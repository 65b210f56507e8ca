package supervisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"writ"
	"writ/identity"
	"writ/identity/sshsig"
	"writ/internal/failpoint"
	"writ/internal/limit"
	"writ/internal/sqldb"
	"writ/supervisor/decision"
	"writ/supervisor/fleet"
	"writ/supervisor/journal"
	"writ/supervisor/link"
)

// A batch is a person's approval of nodes that have not asked for admission yet. It lists the serial numbers of their
// machines. A serial number is not secret: a stranger that guesses an unused one gets a node. Therefore a network may
// report only a few numbers, and each number admits only the first node that reports it.
const (
	serialsAtOnce    = 50
	serialsPerSecond = 1.0 / 60
	// maxBatches limits the open batches, and the length of the list.
	maxBatches = 100
)

// batches holds the open batches of the journal by id. Strangers cause lookups here, so the journal is read only if a
// batch admits a node.
type batches struct {
	mu       sync.Mutex
	open     map[string]*openBatch
	reported limit.Names // rate of new serial numbers, by network
}

type openBatch struct {
	journal.NodeBatch
	says identity.Batch
}

func loadBatches(ctx context.Context, j *journal.Journal) (*batches, error) {
	b := &batches{
		open: make(map[string]*openBatch), reported: limit.Names{PerSecond: serialsPerSecond, AtOnce: serialsAtOnce},
	}
	err := j.Read(ctx, func(tx *journal.Tx) error {
		all, err := tx.NodeBatches(maxBatches)
		for _, one := range all {
			b.put(*one)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("load batches: %w", err)
	}
	return b, nil
}

// put adds or replaces a batch after its commit to the journal.
func (b *batches) put(one journal.NodeBatch) {
	_, says, err := readBatch(one.Signed)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil || !one.Revoked.IsZero() { // an unreadable batch admits no node and is listed as void
		delete(b.open, one.ID)
		return
	}
	b.open[one.ID] = &openBatch{one, says}
}

// readBatch parses the signed statement of a batch without verifying it.
func readBatch(signed []byte) (*identity.Statement, identity.Batch, error) {
	text, _, err := sshsig.Split(signed)
	if err != nil {
		return nil, identity.Batch{}, err
	}
	s, err := identity.ParseStatement(text)
	if err != nil {
		return nil, identity.Batch{}, err
	}
	says, err := identity.ParseBatch(s)
	return s, says, err
}

// listing returns the batches that list a serial number and have room for another node, oldest first.
func (b *batches) listing(serial string, now time.Time) (all []*openBatch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, one := range b.open {
		switch {
		case one.Ended(now):
			delete(b.open, id)
		case one.says.Lists(serial) && len(one.Admitted) < one.says.Most:
			all = append(all, one)
		}
	}
	slices.SortFunc(all, func(a, c *openBatch) int { return cmp.Or(a.Made.Compare(c.Made), cmp.Compare(a.ID, c.ID)) })
	return all
}

// count returns how many batches are open.
func (b *batches) count(now time.Time) int {
	b.listing("", now) // removes expired batches
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.open)
}

// mayReportSerial reports whether the serial number in a claim may be looked up. To make guessing slow, each network
// has a burst of serialsAtOnce new numbers and then one per minute. A waiting node that repeats its number is not
// counted.
func (s *Supervisor) mayReportSerial(n *journal.Node, network string) bool {
	if n.Serial == "" {
		return true
	}
	if waits := s.pending.get(n.ID); waits != nil && waits.Serial == n.Serial {
		return true
	}
	_, may := s.batches.reported.Reserve(network, 1, 0)
	if times, say := s.refusals.Say("serials", time.Now()); !may && say {
		s.Log.Warn("a network reports many serial numbers; they are not looked for in batches", "network", network,
			"most", serialsAtOnce, "times", times)
	}
	return may
}

// batchFor returns the oldest batch that admits a node with this serial number, or nil.
func (s *Supervisor) batchFor(serial string) *openBatch {
	if serial == "" {
		return nil
	}
	for _, b := range s.batches.listing(serial, s.Now()) {
		if _, err := s.approves(&b.NodeBatch, serial); err == nil {
			return b
		}
	}
	return nil
}

// errNotApproved reports that a batch does not admit a node. The node does not receive this error: it waits.
var errNotApproved = errors.New("the batch does not approve the node")

// approves returns the verified statement of a batch if the batch admits a node with this serial number. A number that
// another node holds is rejected even if the batch record in the database claims that it is unused.
func (s *Supervisor) approves(b *journal.NodeBatch, serial string) (*identity.VerifiedStatement, error) {
	if b.Ended(s.Now()) || b.Used(serial) || holder(s.fleet.Members, serial, b) != nil {
		return nil, errNotApproved
	}
	v, says, err := s.verifyBatch(b)
	if err != nil {
		return nil, err
	}
	if !says.Lists(serial) || max(len(b.Admitted), len(admittedBy(s.fleet.Members, b.ID))) >= says.Most {
		return nil, errNotApproved
	}
	return v, nil
}

// verifyBatch verifies the stored statement of a batch. It returns an error if the signer would not have the right to
// sign it now, or if the datacenter has manual approval.
func (s *Supervisor) verifyBatch(b *journal.NodeBatch) (*identity.VerifiedStatement, identity.Batch, error) {
	v, err := s.rosters.Verifier().PastStatement(b.Signed)
	if err != nil {
		return nil, identity.Batch{}, err
	}
	if v.Statement.Subject != "batch/"+b.ID || v.Statement.Decision != "create" {
		return nil, identity.Batch{}, writ.Errorf(writ.CodeRecordForged,
			"the journal gives back another statement for the batch %s", b.ID)
	}
	if err := v.Roster.Allows(v.Signer, v.Rule.Action, "", s.Now()); err != nil {
		return nil, identity.Batch{}, err
	}
	if err := takesBatches(v.Roster.Datacenter(s.Datacenter)); err != nil {
		return nil, identity.Batch{}, err
	}
	says, err := identity.ParseBatch(v.Statement)
	return v, says, err
}

// takesBatches returns an error if the datacenter has manual approval: a person then compares the key of each node on
// its machine.
func takesBatches(d *identity.Datacenter) error {
	if !d.ManualApproval {
		return nil
	}
	return writ.Errorf(writ.CodeConflict, "%s has manual approval: each node is approved by its key", d.Name).
		WithHint("approve each node with `writ node approve`, or have a root operator sign `writ dc set %s --manual-approval=false`", d.Name)
}

// admitByBatch writes the node record and marks its serial number as used in the batch, in one transaction. It returns
// errNotApproved if the batch no longer admits the node.
func (s *Supervisor) admitByBatch(ctx context.Context, asks journal.Node, id string) (*journal.Node, error) {
	var n journal.Node
	err := s.Journal.Write(failpoint.At(ctx, failpoint.NodeBatched), func(tx *journal.Tx) error {
		if was, err := tx.Node(asks.ID); err != nil || was != nil {
			return cmp.Or[error](err, errDecidedMeanwhile)
		}
		b, err := tx.NodeBatch(id)
		if err != nil || b == nil {
			return cmp.Or[error](err, errNotApproved)
		}
		v, err := s.approves(b, asks.Serial)
		if err != nil {
			return errNotApproved
		}
		b.Admitted = append(b.Admitted, asks.Serial)
		n = asks
		n.Joined, n.Admission, n.Batch, n.Decisions, n.Revision = tx.Now, writ.AdmissionApproved, id, 1, 1
		n.Decided = []writ.Decision{{
			Decision: "approve", Signer: v.Signer, Reason: fmt.Sprintf("batch %s lists its serial number %s", id, n.Serial),
			Time: tx.Now,
		}}
		if err := tx.PutNodeBatch(b); err != nil {
			return err
		}
		if err := tx.PutNode(&n); err != nil {
			return err
		}
		shown := n.Node
		tx.AddEvents(writ.Event{Node: &shown})
		kept := *b
		tx.Then(func() {
			s.fleet.Members.Put(n)
			s.pending.remove(n.ID)
			s.batches.put(kept)
			s.accounts.rouse()
		})
		return nil
	})
	if sqldb.IsDuplicate(err) {
		return nil, decision.NameTaken(asks.Name)
	}
	if err != nil {
		return nil, err
	}
	s.Log.Info("node joined by a batch", "node", n.Name, "id", n.ID, "key", n.Key, "batch", id, "serial", n.Serial)
	return &n, nil
}

// holder returns a node that prevents batch b from admitting another node with this serial number, or nil.
func holder(members *fleet.Members, serial string, b *journal.NodeBatch) *journal.Node {
	if all := members.Select(func(n *journal.Node) bool { return holds(n, serial, b) }); len(all) > 0 {
		return &all[0]
	}
	return nil
}

// holds reports whether n prevents batch b from admitting another node with this serial number. n has the number, and b
// admitted it, or it is approved or pending, or its last decision is not older than b.
func holds(n *journal.Node, serial string, b *journal.NodeBatch) bool {
	if n.Serial != serial {
		return false
	}
	last := len(n.Decided) - 1
	return n.Batch == b.ID || n.Admission == writ.AdmissionApproved || n.Admission == writ.AdmissionPending ||
		last >= 0 && !n.Decided[last].Time.Before(b.Made)
}

func (s *Supervisor) createBatch(ctx context.Context, v *identity.VerifiedStatement) (link.StatementAnswer, error) {
	says, err := identity.ParseBatch(v.Statement)
	if err == nil {
		err = takesBatches(v.Roster.Datacenter(s.Datacenter))
	}
	if err == nil && s.batches.count(s.Now()) >= maxBatches {
		err = writ.Errorf(writ.CodeConflict, "%d batches are open in this datacenter, and no more are possible", maxBatches).
			WithHint("end one with `writ batch revoke`; `writ batch list` shows them")
	}
	if err != nil {
		return link.StatementAnswer{}, err
	}
	nodes, numbers := "one node", "one serial number"
	if says.Most > 1 {
		nodes = fmt.Sprintf("%d nodes", says.Most)
	}
	if len(says.Serials) > 1 {
		numbers = fmt.Sprintf("%d serial numbers", len(says.Serials))
	}
	answer := link.StatementAnswer{
		Subject: v.Statement.Subject,
		Done:    fmt.Sprintf("batch %s admits %s of %s until %s", says.ID, nodes, numbers, says.Until.Format(time.RFC3339)),
	}
	err = s.Journal.Write(failpoint.At(ctx, failpoint.BatchMade), func(tx *journal.Tx) error {
		if known, err := tx.NodeBatch(says.ID); err != nil || known != nil {
			return cmp.Or[error](err,
				writ.Errorf(writ.CodeConflict, "there is a batch %s already", says.ID).
					WithHint("make another one with `writ batch create`"))
		}
		b := journal.NodeBatch{ID: says.ID, Signed: v.Signed, Made: tx.Now, Until: says.Until}
		if err := tx.PutNodeBatch(&b); err != nil {
			return err
		}
		tx.Then(func() { s.batches.put(b) })
		return s.answers.Record(tx, v, &answer)
	})
	return answer, err
}

// revokeBatch ends a batch. Nodes that it admitted stay.
func (s *Supervisor) revokeBatch(ctx context.Context, v *identity.VerifiedStatement) (link.StatementAnswer, error) {
	id := v.Statement.ID()
	answer := link.StatementAnswer{Subject: v.Statement.Subject, Done: fmt.Sprintf("batch %s admits no node any more", id)}
	err := s.Journal.Write(failpoint.At(ctx, failpoint.BatchRevoked), func(tx *journal.Tx) error {
		b, err := tx.NodeBatch(id)
		if err == nil && b == nil {
			err = writ.Errorf(writ.CodeNotFound, "there is no batch %s in this datacenter", id).
				WithHint("`writ batch list` shows them")
		}
		if err != nil {
			return err
		}
		if b.Revoked.IsZero() {
			b.Revoked = tx.Now
		}
		if b.Until.After(tx.Now) { // batches with the latest end are loaded and listed first
			b.Until = tx.Now
		}
		if err := tx.PutNodeBatch(b); err != nil {
			return err
		}
		revoked := *b
		tx.Then(func() { s.batches.put(revoked) })
		return s.answers.Record(tx, v, &answer)
	})
	return answer, err
}

// listBatches returns the batches with their admitted nodes, and the pending nodes whose serial number another node
// holds.
func (s *Supervisor) listBatches(ctx context.Context) ([]link.Batch, error) {
	var kept []*journal.NodeBatch
	err := s.Journal.Read(ctx, func(tx *journal.Tx) (err error) {
		kept, err = tx.NodeBatches(maxBatches)
		return err
	})
	list := []link.Batch{}
	for _, b := range kept {
		list = append(list, s.batchShown(b))
	}
	return list, err
}

func (s *Supervisor) batchShown(b *journal.NodeBatch) link.Batch {
	shown := link.Batch{
		ID: b.ID, Datacenter: s.Datacenter, Until: b.Until, Revoked: b.Revoked, Admitted: admittedBy(s.fleet.Members, b.ID),
	}
	statement, says, err := readBatch(b.Signed)
	if err == nil {
		shown.CreatedBy, shown.Reason = statement.Signer, statement.Reason
		_, _, err = s.verifyBatch(b)
	}
	if err != nil && !b.Ended(s.Now()) {
		shown.Void = writ.AsError(err).Message
	}
	shown.Serials, shown.Max = len(says.Serials), says.Most
	for _, n := range s.pending.list() {
		if n.Host == nil || !says.Lists(n.Host.Serial) {
			continue
		}
		if holder := holder(s.fleet.Members, n.Host.Serial, b); holder != nil {
			shown.Contested = append(shown.Contested, link.BatchNode{
				Serial: n.Host.Serial, Name: n.Name, Key: n.Key, Admission: n.Admission, Holder: holder.Name,
			})
		}
	}
	return shown
}

// admittedBy returns the nodes that a batch has admitted, sorted by name and key.
func admittedBy(members *fleet.Members, batch string) []link.BatchNode {
	all := []link.BatchNode{}
	for _, n := range members.Select(func(n *journal.Node) bool { return n.Batch == batch }) {
		all = append(all, link.BatchNode{Serial: n.Serial, Name: n.Name, Key: n.Key, Admission: n.Admission})
	}
	return all
}

package journal

import (
	"fmt"
	"time"

	"writ"
	"writ/internal/sqldb"
)

// Call is a call with its arguments, its result and its dispatch state.
type Call struct {
	writ.Call
	Hash    writ.Digest      `json:"hash"`
	Project writ.ProjectID   `json:"project"`
	UID     writ.UID         `json:"uid,omitempty"`
	Args    map[string]any   `json:"args,omitempty"`
	Options writ.CallOptions `json:"options"`
	// Need is the capacity that the call reserves on its node, in addition to the capacity that its resource already
	// reserves.
	Need writ.Capacity `json:"need"`
	// Orders lists earlier calls on the same resource, which must have ended before this call is sent.
	Orders  []int          `json:"orders,omitempty"`
	Values  map[string]any `json:"values,omitempty"`
	Aside   bool           `json:"aside,omitempty"`   // it blocks no other call: see catalog.Operation
	Claimed bool           `json:"claimed,omitempty"` // no other run blocks its resource; UID and Need are set
	Ready   bool           `json:"ready,omitempty"`   // placed, and all calls that it needs have succeeded
	RetryAt time.Time      `json:"retry_at,omitzero"`
	StartBy time.Time      `json:"start_by,omitzero"`
	// Before is the number of attempts before the last resume. They do not count against the limit of retries.
	Before        int `json:"before,omitempty"`
	KnownFailures int `json:"told,omitempty"` // all attempts up to this one are known to have failed
	// Spared counts attempts since the last resume that do not count as attempts. The node refused them because it could
	// not write its journal, or because a driver that ignores its deadline blocked the call.
	Spared int `json:"spared,omitempty"`
	// Read is the position at which the script last read a result before it requested the call, "" if it had read none.
	Read string `json:"read,omitempty"`
	// Moved is the newest attempt that is on no node: it was revoked before a node received it, or its node is
	// permanently lost. The same holds for all earlier attempts.
	Moved int `json:"moved,omitempty"`
	// Withdrawn is the newest delivery of the attempt that was revoked before a node received it, as were all earlier
	// deliveries.
	Withdrawn int `json:"withdrawn,omitempty"`
	// KeptBack is set if the newest delivery was lost while the call was on hold. The next delivery waits for the
	// release.
	KeptBack bool `json:"kept_back,omitempty"`
	// Late is the success of the last attempt if it arrived after the call had been given up. A resume then need not
	// repeat the call.
	Late *writ.Result `json:"late,omitempty"`
	// Sent is the newest delivery, nil without a delivery. Earlier deliveries have their own rows.
	Sent *Delivery `json:"sent,omitempty"`
	// Answered is the result that ended the newest attempt, nil if the attempt has no result. Results of earlier attempts
	// have their own rows.
	Answered *Answer `json:"answered,omitempty"`

	place  int64 // place of its row, 0 if unknown
	stored kept  // as in the journal
}

// The keys of rows consist of slots of slotCalls keys. The number of a run is its first slot. Earlier versions gave each
// run one slot, with numbers below firstLong. Now each run has longSlots slots.
const (
	slotCalls = 4096
	firstLong = 1 << 32 // migration 0024 sets the counter to it
	longSlots = 32
)

// MaxCalls limits the calls of a run: the keys of its rows have room for this number. The limit for submissions is
// lower. A run of an earlier version may have slotCalls - 1 calls.
const MaxCalls = longSlots*slotCalls - 1

// slotsOf returns the number of slots of the run with this number.
func slotsOf(run int64) int64 {
	if run < firstLong {
		return 1
	}
	return longSlots
}

// In assigns a new call to a run.
func (c *Call) In(r *Run) { c.Run, c.Project, c.place = r.ID, r.Project, place(r.number, c.Seq) }

// place returns the key of a call's row. Runs are numbered as they are accepted, so rows that are active at the same
// time are adjacent and a commit changes few pages.
func place(run int64, seq int) int64 { return run*slotCalls + int64(seq) }

// hasRoom reports whether the run of a call has the place of the call.
func (c *Call) hasRoom() bool {
	number := (c.place - int64(c.Seq)) / slotCalls
	return c.Seq > 0 && int64(c.Seq) < slotsOf(number)*slotCalls
}

// WasOpen reports whether the call was open when it was read.
func (c *Call) WasOpen() bool { return c.stored.state != "" && !c.stored.state.Ended() }

// WasOut reports whether the call was sent to a node, and not ended, when it was read.
func (c *Call) WasOut() bool { return c.stored.state.Sent() }

// StoodInTheWay reports whether the call held its resource when it was read, so that no other run could claim it.
func (c *Call) StoodInTheWay() bool { return c.WasOpen() && c.stored.claimed && !c.Aside }

// Key returns the key of the call's current attempt.
func (c *Call) Key() writ.JobKey { return writ.JobKey{Run: c.Run, Seq: c.Seq, Attempt: c.Attempt} }

// Resource returns the call's resource, or the zero value if the call acts on no resource.
func (c *Call) Resource() writ.ResourceID {
	if c.Kind == "" {
		return writ.ResourceID{}
	}
	return writ.ResourceID{Project: c.Project, Kind: c.Kind, Name: c.Name}
}

// Move changes the state of the call in memory; PutCall writes it. It returns an error if CallMoves does not allow the
// move.
func (c *Call) Move(to writ.CallState) error {
	if !writ.CanMove(writ.CallMoves, c.State, to) {
		return fmt.Errorf("call %s-%d: no move from %s to %s", c.Run, c.Seq, c.State, to)
	}
	c.State = to
	return nil
}

// Committed records that the journal has the call in its current form, so that it can be changed and stored again
// without a read.
func (c *Call) Committed() { c.stored = c.kept() }

// kept returns the searched columns of the call in its current form.
func (c *Call) kept() kept {
	return kept{c.State, placed{c.Node, c.Need, c.Claimed, c.Ready, sqldb.Micros(c.RetryAt)}}
}

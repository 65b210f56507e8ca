package journal_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"writ"
	"writ/internal/test/linear"
	"writ/supervisor/journal"
)

// Concurrent requests of several clients to a journal, while it is closed and opened again, must be linearizable. Each
// history has a twin on a journal without the responsible mechanism, and the twin must fail the check.

const (
	linearClients = 4
	linearKeys    = 12
	linearSeed    = 20261121
)

// want fails the test unless the model explains the history, or does not, as expected by legal.
func want[S comparable, In, Out any](t *testing.T, m linear.Model[S, In, Out], h *linear.History[In, Out], legal bool) {
	t.Helper()
	known, lost := h.Count()
	t.Logf("%d answers, %d lost", known, lost)
	if got, err := linear.Legal(m, h); err != nil || got != legal {
		t.Errorf("legal = %v, %v; want %v", got, err, legal)
	}
}

// stored is one of several values that clients try to store under a key.
type stored struct{ key, value string }

// kept is the answer: whether the value was the first, and the stored value.
type kept struct {
	first  bool
	stands string
}

// firstWins is the model of a register that keeps the first value.
var firstWins = linear.Model[string, stored, kept]{
	Step: func(stands string, in stored, out kept) (string, bool) {
		if stands == "" {
			return in.value, out == kept{true, in.value}
		}
		return stands, out == kept{false, stands}
	},
	Maybe: func(stands string, in stored) string {
		if stands == "" {
			return in.value
		}
		return stands
	},
	Key: func(in stored) string { return in.key },
}

// keeper stores a value in a journal.
type keeper func(ctx context.Context, j *journal.Journal, in stored) (kept, error)

// keepAll makes clients store different values under the same keys, each twice, on journals that are closed and
// reopened deaths times.
func keepAll(t *testing.T, path string, deaths int, keep keeper) *linear.History[stored, kept] {
	t.Helper()
	h := new(linear.History[stored, kept])
	store := &linear.Store[*journal.Journal]{Open: func() (*journal.Journal, error) { return journal.Open(t.Context(), path) }}
	together := linear.Barrier{Of: linearClients}
	linear.Clients(linearClients, linearSeed, func(id int, random *rand.Rand) {
		for key := range linearKeys {
			together.Wait(fmt.Sprint(key))
			for try := range 2 {
				in := stored{fmt.Sprint("key ", key), fmt.Sprintf("of %d, %d", id, try)}
				j, err := store.Now()
				if err != nil {
					t.Error(err)
					continue
				}
				ask := func() {
					_, err := h.Ask(id, in, func() (kept, error) { return keep(t.Context(), j, in) })
					if err != nil && writ.CodeOf(err) != writ.CodeStoreUnavailable {
						t.Error(err)
					}
				}
				if random.IntN(linearClients*linearKeys) >= deaths {
					ask()
				} else if err := store.Dying(ask); err != nil {
					t.Error(err)
				}
			}
		}
	})
	if err := store.Die(); err != nil {
		t.Error(err)
	}
	return h
}

// submit accepts a submission: the value is its signature, the key its text.
func submit(ctx context.Context, j *journal.Journal, in stored) (out kept, err error) {
	err = j.Write(ctx, func(tx *journal.Tx) error {
		run := aRun(in.key)
		if out.first, _, err = tx.AddRun(run, 1, []byte(in.value)); err != nil {
			return err
		}
		signed, err := tx.Payload(run.Payload)
		out.stands = string(signed)
		return err
	})
	return out, err
}

func TestConcurrentSubmissionsAreOneRun(t *testing.T) {
	stores(t, func(t *testing.T, path string) {
		want(t, firstWins, keepAll(t, path, 12, submit), true)
	})
}

// A check before the write, without a unique key, accepts the same payload twice.
func TestDuplicatePayloadsAreDetected(t *testing.T) {
	stores(t, func(t *testing.T, path string) {
		looked := linear.Barrier{Of: linearClients}
		want(t, firstWins, keepAll(t, path, 0, func(ctx context.Context, j *journal.Journal, in stored) (out kept, err error) {
			digest := aRun(in.key).Payload
			err = j.Read(ctx, func(tx *journal.Tx) error {
				signed, err := tx.Payload(digest)
				out.stands = string(signed)
				return err
			})
			looked.Wait(in.key)
			if err != nil || out.stands != "" {
				return out, err
			}
			return kept{true, in.value}, j.ExecForTest(ctx, `INSERT INTO payloads (digest, signed, run) VALUES ($1, $2, $3)
				ON CONFLICT (digest) DO UPDATE SET signed = excluded.signed`, digest.String(), []byte(in.value), "run")
		}), false)
	})
}

// answered stores the first result of an attempt and returns the stored one.
func answered(add func(tx *journal.Tx, c *journal.Call, frame *journal.Frame) (bool, error)) keeper {
	return func(ctx context.Context, j *journal.Journal, in stored) (out kept, err error) {
		err = j.Write(ctx, func(tx *journal.Tx) error {
			c, err := theCall(tx, writ.RunID(in.key))
			if err != nil {
				return err
			}
			if out.first, err = add(tx, c, aFrame(in.value)); err != nil {
				return err
			}
			c.State = writ.CallSucceeded
			if err := tx.PutCall(c); err != nil {
				return err
			}
			if c, err = theCall(tx, c.Run); err != nil {
				return err
			}
			out.stands = c.Answered.Frame.String()
			return nil
		})
		return out, err
	}
}

// theCall returns the only call of a run. It creates and sends it if it is missing.
func theCall(tx *journal.Tx, run writ.RunID) (*journal.Call, error) {
	calls, err := tx.Calls(run)
	if err != nil {
		return nil, err
	}
	if len(calls) > 0 {
		return calls[0], nil
	}
	c := aCall(run, 1)
	c.State = writ.CallQueued
	if err := putFirst(tx, c); err != nil {
		return nil, err
	}
	c.Committed()
	return c, nil
}

// byDigest is firstWins for answers that contain the digest of a value.
var byDigest = linear.Model[string, stored, kept]{
	Step: func(stands string, in stored, out kept) (string, bool) {
		return firstWins.Step(stands, stored{in.key, writ.DigestOf([]byte(in.value)).String()}, out)
	},
	Maybe: func(stands string, in stored) string {
		return firstWins.Maybe(stands, stored{in.key, writ.DigestOf([]byte(in.value)).String()})
	},
	Key: firstWins.Key,
}

// Promise: Speed and storage: The first result of an attempt is final, and every result is in the digest of its run's
// summary.
// How: The row of the call has the result of the newest attempt, separate rows have the others; a frame is kept while
// one of its runs exists.
// Also: TestAllResultsOfARunAreDigested, TestAFrameIsKeptOnceForAllItsResults,
// TestOldRunsAreForgottenWholeInSmallSteps, TestOldFramesEndWithTheirLastResult.
func TestTheFirstResultOfAnAttemptWins(t *testing.T) {
	stores(t, func(t *testing.T, path string) {
		add := func(tx *journal.Tx, c *journal.Call, frame *journal.Frame) (bool, error) {
			return tx.AddResult(c, 1, frame)
		}
		want(t, byDigest, keepAll(t, path, 12, answered(add)), true)
	})
}

func TestReplacedResultsAreDetected(t *testing.T) {
	stores(t, func(t *testing.T, path string) {
		replace := func(tx *journal.Tx, c *journal.Call, frame *journal.Frame) (bool, error) {
			c.Answered = &journal.Answer{Attempt: 1, Frame: frame.Digest}
			return true, nil
		}
		want(t, byDigest, keepAll(t, path, 0, answered(replace)), false)
	})
}

// The lease: a supervisor acquires it, writes under its epoch, pauses for longer than the lease lasts, and continues.

type leaseAct string

const (
	takes  leaseAct = "takes"
	writes leaseAct = "writes"
	looks  leaseAct = "looks"
	pauses leaseAct = "pauses" // all clients, until the lease has expired
)

type leaseAsk struct {
	act   leaseAct
	epoch int64 // epoch of the client, 0 for none
	value int   // value to write
	at    time.Time
}

type leaseAnswer struct {
	refused bool // held by another process, or fenced
	epoch   int64
	value   int
	at      time.Time
}

type leaseState struct {
	epoch int64
	value int
	held  bool
	since time.Time // earliest time at which it was taken
}

// leases is the model of a lease that several processes share, or of a journal with a single process.
func leases(shared bool) linear.Model[leaseState, leaseAsk, leaseAnswer] {
	return linear.Model[leaseState, leaseAsk, leaseAnswer]{
		Step: func(s leaseState, in leaseAsk, out leaseAnswer) (leaseState, bool) {
			switch in.act {
			case takes:
				over := !shared || !s.held || in.epoch == s.epoch
				if out.refused {
					return s, !over
				}
				over = over || !out.at.Before(s.since.Add(journal.AbsentAfter)) // a slow machine
				return leaseState{out.epoch, s.value, true, in.at}, over && out.epoch > s.epoch
			case writes:
				if out.refused {
					return s, in.epoch != s.epoch
				}
				s.value = in.value
				return s, in.epoch == s.epoch
			case looks:
				return s, out.value == s.value
			default:
				s.held = false
				return s, true
			}
		},
		Maybe: func(s leaseState, in leaseAsk) leaseState {
			if in.act == writes && in.epoch == s.epoch {
				s.value = in.value
			}
			return s
		},
	}
}

// reigns makes supervisors compete for a lease, write through write with their own connections, and die.
func reigns(t *testing.T, path string, write func(j *journal.Journal, value int) error) *linear.History[leaseAsk, leaseAnswer] {
	t.Helper()
	h := new(linear.History[leaseAsk, leaseAnswer])
	open(t, path) // creates the journal
	together := linear.Barrier{Of: linearClients}
	linear.Clients(linearClients, linearSeed, func(id int, random *rand.Rand) {
		mine := &linear.Store[*journal.Journal]{Open: func() (*journal.Journal, error) { return journal.Open(t.Context(), path) }}
		defer mine.Die()
		epoch := int64(0)
		for step := range 16 {
			together.Wait(fmt.Sprint(step))
			j, err := mine.Now()
			if err != nil {
				t.Error(err)
				continue
			}
			in := leaseAsk{act: []leaseAct{takes, writes, writes, looks, pauses}[random.IntN(5)], epoch: epoch, value: 100*(id+1) + step, at: time.Now()}
			if epoch == 0 && in.act == writes {
				in.act = takes
			}
			ask := func() (out leaseAnswer, err error) {
				switch in.act {
				case takes:
					out.epoch, err = j.BeginEpoch(t.Context(), time.Now())
				case writes:
					err = write(j, in.value)
				case looks:
					out.value, err = j.NumberForTest(t.Context(), `SELECT CAST(COALESCE((SELECT value FROM meta WHERE name = 'test'), '0') AS BIGINT)`)
				case pauses:
					err = j.ExpireLeaseForTest(t.Context())
				}
				out.at = time.Now()
				if errors.Is(err, journal.ErrHeld) || errors.Is(err, journal.ErrFenced) {
					out.refused, err = true, nil
				}
				return out, err
			}
			if in.act == writes && random.IntN(4) == 0 {
				if err := mine.Dying(func() { h.Ask(id, in, ask) }); err != nil {
					t.Error(err)
				}
				epoch = 0 // a restarted supervisor has no epoch
				continue
			}
			out, err := h.Ask(id, in, ask)
			if err != nil {
				t.Error(err)
			}
			if in.act == takes && !out.refused {
				epoch = out.epoch
			}
		}
	})
	return h
}

func writeValue(j *journal.Journal, value int) error {
	return j.Write(context.Background(), func(tx *journal.Tx) error {
		_, err := tx.ExecContext(context.Background(), `INSERT INTO meta (name, value) VALUES ('test', $1)
			ON CONFLICT (name) DO UPDATE SET value = excluded.value`, fmt.Sprint(value))
		return err
	})
}

func TestOnlyLeaseHolderWrites(t *testing.T) {
	stores(t, func(t *testing.T, path string) {
		want(t, leases(open(t, path).Shared()), reigns(t, path, writeValue), true)
	})
}

// A journal without an epoch writes without comparing it.
func TestUnfencedOldHolderIsDetected(t *testing.T) {
	stores(t, func(t *testing.T, path string) {
		bare := open(t, path)
		want(t, leases(bare.Shared()), reigns(t, path, func(_ *journal.Journal, value int) error { return writeValue(bare, value) }), false)
	})
}

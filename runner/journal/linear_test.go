package journal_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"writ"
	"writ/internal/test/linear"
	"writ/runner/journal"
)

// Concurrent deliveries of one job, to a node whose journal is closed and reopened meanwhile, must be linearizable: one
// of them starts, and its first result stays. The faulty variant checks and then starts separately.

type claimAct string

const (
	begins  claimAct = "begins"
	ends    claimAct = "ends"
	refuses claimAct = "refuses"
)

type claimAsk struct {
	act   claimAct
	seq   int
	value string // of the result
}

type claimAnswer struct {
	first  bool   // it may act
	result string // the decisive result
}

type claimState struct {
	begun  bool
	result string
}

var claims = linear.Model[claimState, claimAsk, claimAnswer]{
	Step: func(s claimState, in claimAsk, out claimAnswer) (claimState, bool) {
		next := after(s, in)
		switch in.act {
		case begins:
			return next, out == claimAnswer{!s.begun, s.result}
		case ends:
			return next, s.begun
		default:
			return next, out.result == next.result
		}
	},
	Maybe: after,
	Key:   func(in claimAsk) string { return fmt.Sprint(in.seq) },
}

// after returns the state of a job after an action.
func after(s claimState, in claimAsk) claimState {
	s.begun = true
	if in.act != begins && s.result == "" {
		s.result = in.value
	}
	return s
}

// begin is a way to start a job.
type begin func(j *journal.Journal, one *writ.Job) (claimAnswer, error)

// deliver makes clients handle deliveries of the same jobs.
func deliver(t *testing.T, deaths int, begin begin) *linear.History[claimAsk, claimAnswer] {
	t.Helper()
	const clients, jobs = 4, 12
	path := filepath.Join(t.TempDir(), "runner.db")
	h := new(linear.History[claimAsk, claimAnswer])
	store := &linear.Store[*journal.Journal]{Open: func() (*journal.Journal, error) { return journal.Open(t.Context(), path) }}
	endBy := time.Now().Add(time.Hour)
	together := linear.Barrier{Of: clients}
	linear.Clients(clients, 20261121, func(id int, random *rand.Rand) {
		for seq := range jobs {
			together.Wait(fmt.Sprint(seq))
			one := job(seq, endBy)
			ask := func(act claimAct, do func(j *journal.Journal, value string) (claimAnswer, error)) (claimAnswer, error) {
				in := claimAsk{act, seq, fmt.Sprintf("%s %d", act, id)}
				j, err := store.Now()
				if err != nil {
					return claimAnswer{}, err
				}
				var out claimAnswer
				asking := func() { out, err = h.Ask(id, in, func() (claimAnswer, error) { return do(j, in.value) }) }
				if random.IntN(clients*jobs) >= deaths {
					asking()
				} else if dead := store.Dying(asking); dead != nil {
					t.Error(dead)
				}
				return out, err
			}
			out, err := ask(begins, func(j *journal.Journal, _ string) (claimAnswer, error) { return begin(j, one) })
			switch {
			case err == nil && out.first:
				_, err = ask(ends, func(j *journal.Journal, value string) (claimAnswer, error) {
					return claimAnswer{}, j.Finish(t.Context(), one, answer(one.JobKey, value), true)
				})
			case err == nil && random.IntN(2) == 0:
				_, err = ask(refuses, func(j *journal.Journal, value string) (claimAnswer, error) {
					stands, err := j.Refuse(t.Context(), one, writ.Digest{}, 1, func(*journal.Entry) *writ.Result { return answer(one.JobKey, value) })
					return resultOf(stands), err
				})
			}
			if err != nil && writ.CodeOf(err) != writ.CodeStoreUnavailable {
				t.Error(err)
			}
		}
	})
	if err := store.Die(); err != nil {
		t.Error(err)
	}
	return h
}

func resultOf(r *writ.Result) claimAnswer {
	if r == nil {
		return claimAnswer{}
	}
	return claimAnswer{result: r.Values["path"].(string)}
}

// pastOf returns the answer to a repeated delivery.
func pastOf(e *journal.Entry) claimAnswer {
	if e == nil {
		return claimAnswer{first: true}
	}
	return resultOf(e.Result)
}

func wantClaims(t *testing.T, h *linear.History[claimAsk, claimAnswer], legal bool) {
	t.Helper()
	known, lost := h.Count()
	t.Logf("%d answers, %d lost", known, lost)
	if got, err := linear.Legal(claims, h); err != nil || got != legal {
		t.Errorf("legal = %v, %v; want %v", got, err, legal)
	}
}

func TestOneConcurrentDeliveryStarts(t *testing.T) {
	wantClaims(t, deliver(t, 6, func(j *journal.Journal, one *writ.Job) (claimAnswer, error) {
		past, err := j.Start(t.Context(), one, writ.Digest{}, 1, true)
		if past == nil || err != nil {
			return claimAnswer{first: true}, err
		}
		return pastOf(past.Entry), nil
	}), true)
}

func TestCheckThenStartIsNotLinearizable(t *testing.T) {
	looked := linear.Barrier{Of: 4}
	wantClaims(t, deliver(t, 0, func(j *journal.Journal, one *writ.Job) (claimAnswer, error) {
		e, err := j.Find(t.Context(), one.JobKey)
		looked.Wait(fmt.Sprint(one.Seq))
		if e != nil || err != nil {
			return pastOf(e), err
		}
		_, err = j.Start(t.Context(), one, writ.Digest{}, 1, true) // ignores its answer
		return claimAnswer{first: true}, err
	}), false)
}

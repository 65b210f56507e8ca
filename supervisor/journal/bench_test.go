package journal_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"writ"
	"writ/supervisor/journal"
)

// BenchmarkAppend measures the writes of one step of a run: a result, the call that it ends, the next call with its
// delivery, the run, and two events. It runs with one run, and with many runs that share commits, with and without
// codes.
func BenchmarkAppend(b *testing.B) {
	for _, runs := range []int{1, 50} {
		for _, protected := range []bool{false, true} {
			b.Run(fmt.Sprintf("runs=%d/protected=%v", runs, protected), func(b *testing.B) { benchmarkAppend(b, runs, protected) })
		}
	}
}

func benchmarkAppend(b *testing.B, runs int, protected bool) {
	j, err := journal.Open(b.Context(), filepath.Join(b.TempDir(), "journal.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer j.Close()
	if protected {
		if err := j.Protect(journal.Protection{Key: make([]byte, 32)}); err != nil {
			b.Fatal(err)
		}
	}
	steps := make(chan struct{})
	var group sync.WaitGroup
	for r := range runs {
		group.Go(func() {
			run := aRun(fmt.Sprint(r))
			err := j.Write(b.Context(), func(tx *journal.Tx) error {
				_, _, err := tx.AddRun(run, 1, []byte(fmt.Sprint(r)))
				run.Committed()
				return err
			})
			var last *journal.Call
			for range steps {
				if err != nil {
					b.Error(err)
					continue
				}
				next := aCall(run.ID, 1)
				if last != nil {
					next.Seq = last.Seq + 1
				}
				next.State, next.Node, next.Delivery, next.After, next.Error = writ.CallQueued, "n1", 1, nil, nil
				err = j.Write(b.Context(), func(tx *journal.Tx) error { return step(tx, run, last, next) })
				run.Committed()
				next.Committed()
				last = next
			}
		})
	}
	b.ResetTimer()
	for range b.N {
		steps <- struct{}{}
	}
	close(steps)
	group.Wait()
}

// step ends a call, if any, and sends the next one.
func step(tx *journal.Tx, run *journal.Run, last, next *journal.Call) error {
	if last != nil {
		if _, err := tx.AddResult(last, last.Attempt, aFrame(last.Key().String())); err != nil {
			return err
		}
		last.State = writ.CallSucceeded
		if err := tx.PutCall(last); err != nil {
			return err
		}
		tx.AddEvents(writ.Event{Call: &last.Call})
	}
	if err := tx.AddDelivery(next, next.Hash, 1); err != nil {
		return err
	}
	if err := tx.PutCall(next); err != nil {
		return err
	}
	run.Waiting = []int{next.Seq}
	if err := tx.PutRun(run); err != nil {
		return err
	}
	tx.AddEvents(writ.Event{Call: &next.Call})
	return nil
}

// BenchmarkReadCall measures reading a call, with and without a code.
func BenchmarkReadCall(b *testing.B) {
	for _, protected := range []bool{false, true} {
		b.Run(fmt.Sprintf("protected=%v", protected), func(b *testing.B) {
			j, err := journal.Open(b.Context(), filepath.Join(b.TempDir(), "journal.db"))
			if err != nil {
				b.Fatal(err)
			}
			defer j.Close()
			if protected {
				if err := j.Protect(journal.Protection{Key: make([]byte, 32)}); err != nil {
					b.Fatal(err)
				}
			}
			run := aRun("1")
			err = j.Write(b.Context(), func(tx *journal.Tx) error {
				if _, _, err := tx.AddRun(run, 1, []byte("1")); err != nil {
					return err
				}
				return tx.PutCall(aCall(run.ID, 1))
			})
			if err != nil {
				b.Fatal(err)
			}
			err = j.Read(b.Context(), func(tx *journal.Tx) error {
				for b.Loop() {
					if _, err := tx.Calls(run.ID); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				b.Fatal(err)
			}
		})
	}
}

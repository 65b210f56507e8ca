package journal_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"writ"
	"writ/identity/envelope"
	"writ/internal/test/testenv"
	"writ/supervisor/journal"
)

func TestMain(m *testing.M) {
	code := m.Run()
	server.Stop()
	os.Exit(code)
}

// server is the PostgreSQL server of all tests.
var server testenv.SharedPostgres

func init() { journal.StoreForTest = server.Store }

func open(t *testing.T, path string) *journal.Journal {
	t.Helper()
	j, err := journal.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

// stores runs a test on a journal in a file and on one on PostgreSQL. path may be opened any number of times.
func stores(t *testing.T, test func(t *testing.T, path string)) {
	t.Run("sqlite", func(t *testing.T) { test(t, filepath.Join(t.TempDir(), "journal.db")) })
	t.Run("postgresql", func(t *testing.T) { test(t, server.Store(t)) })
}

func write(t *testing.T, j *journal.Journal, do func(tx *journal.Tx) error) {
	t.Helper()
	if err := j.Write(t.Context(), do); err != nil {
		t.Fatal(err)
	}
}

func aRun(name string) *journal.Run {
	payload := writ.DigestOf([]byte(name))
	return &journal.Run{
		Run: writ.Run{
			ID: writ.RunIDOf(payload), Payload: payload, Project: "p", State: writ.RunAccepted, Signer: "alice",
			Accepted: time.Date(2026, 11, 21, 10, 0, 0, 123000, time.UTC), Deadline: time.Date(2026, 11, 21, 11, 0, 0, 0, time.UTC),
			Output: map[string]any{"n": int64(1), "list": []any{"a", true, nil}},
		},
	}
}

// accept adds a run with an ID, unless it exists.
func accept(tx *journal.Tx, id writ.RunID) error {
	run := &journal.Run{Run: writ.Run{ID: id, Payload: writ.DigestOf([]byte(id)), State: writ.RunAccepted}}
	_, _, err := tx.AddRun(run, 1, []byte("signed"))
	return err
}

// putFirst stores the first call of a run, and the run.
func putFirst(tx *journal.Tx, c *journal.Call) error {
	if err := accept(tx, c.Run); err != nil {
		return err
	}
	return tx.PutCall(c)
}

func aCall(run writ.RunID, seq int) *journal.Call {
	retries := 2
	return &journal.Call{
		Call: writ.Call{
			Run: run, Seq: seq, Operation: "volume.create", Kind: writ.KindVolume, Name: "v", State: writ.CallPlanned, Attempt: 1,
			Planned: time.Date(2026, 11, 21, 10, 0, 1, 0, time.UTC), After: []int{1}, Error: writ.Errorf(writ.CodeNodeLost, "gone"),
		},
		Hash: writ.DigestOf([]byte("args")), Project: "p", Args: map[string]any{"size_gib": int64(1)},
		Options: writ.CallOptions{Retries: &retries, Labels: map[string]string{"a": "b"}}, Need: writ.Capacity{DiskGiB: 1},
	}
}

func TestRecordsComeBackAsTheyWereKept(t *testing.T) {
	stores(t, func(t *testing.T, path string) {
		j, err := journal.Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		run, call := aRun("one"), aCall(aRun("one").ID, 1)
		write(t, j, func(tx *journal.Tx) error {
			if added, _, err := tx.AddRun(run, 1, []byte("signed")); err != nil || !added {
				t.Errorf("AddRun = %v, %v", added, err)
			}
			return tx.PutCall(call)
		})
		id := j.ID()
		j.Close()

		j = open(t, path)
		if j.ID() != id {
			t.Errorf("journal id changed from %s to %s", id, j.ID())
		}
		err = j.Read(t.Context(), func(tx *journal.Tx) error {
			gotRun, err := tx.Run(run.ID)
			if err != nil {
				return err
			}
			if diff := cmp.Diff(run, gotRun, cmpopts.IgnoreUnexported(journal.Run{})); diff != "" {
				t.Errorf("run (-want +got):\n%s", diff)
			}
			calls, err := tx.Calls(run.ID)
			if err != nil {
				return err
			}
			if diff := cmp.Diff([]*journal.Call{call}, calls, cmpopts.IgnoreUnexported(journal.Call{}), cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Err" }, cmp.Ignore())); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

func TestTheSamePayloadIsRecordedOnce(t *testing.T) {
	stores(t, func(t *testing.T, path string) {
		j := open(t, path)
		for i, want := range []bool{true, false} {
			write(t, j, func(tx *journal.Tx) error {
				added, _, err := tx.AddRun(aRun("one"), 1, []byte("signed"))
				if added != want {
					t.Errorf("AddRun number %d = %v, want %v", i+1, added, want)
				}
				return err
			})
		}
	})
}

func TestIllegalMovesAreRefused(t *testing.T) {
	if err := aRun("one").Move(writ.RunSucceeded); err == nil {
		t.Error("a run moved from accepted to succeeded")
	}
	call := aCall("r", 1)
	call.State = writ.CallSucceeded
	if err := call.Move(writ.CallPlanned); err == nil {
		t.Error("a call moved from succeeded to planned")
	}
}

func TestConcurrentMovesHaveOneWinner(t *testing.T) {
	stores(t, func(t *testing.T, path string) {
		j := open(t, path)
		id := aRun("one").ID
		write(t, j, func(tx *journal.Tx) error {
			if _, _, err := tx.AddRun(aRun("one"), 1, []byte("signed")); err != nil {
				return err
			}
			return tx.PutCall(aCall(id, 1))
		})
		var run *journal.Run
		var calls []*journal.Call
		if err := j.Read(t.Context(), func(tx *journal.Tx) (err error) {
			if run, err = tx.Run(id); err == nil {
				calls, err = tx.Calls(id)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		run.Move(writ.RunRunning)
		calls[0].Move(writ.CallQueued)
		move := func(tx *journal.Tx) error {
			if err := tx.PutRun(run); err != nil {
				return err
			}
			return tx.PutCall(calls[0])
		}
		write(t, j, move)
		if err := j.Write(t.Context(), move); writ.CodeOf(err) != writ.CodeConflict {
			t.Errorf("the second move of the same run gave %v", err)
		}
		if err := j.Write(t.Context(), func(tx *journal.Tx) error { return tx.PutCall(aCall(id, 1)) }); writ.CodeOf(err) != writ.CodeConflict {
			t.Errorf("a second call 1 gave %v", err)
		}
	})
}

func TestEventsHaveNoGapsAndWakeReaders(t *testing.T) {
	stores(t, func(t *testing.T, path string) {
		j := open(t, path)
		got := make(chan []writ.Event)
		go func() {
			events, err := j.Events(t.Context(), 0, 10)
			if err != nil {
				t.Error(err)
			}
			got <- events
		}()
		undone := j.Write(t.Context(), func(tx *journal.Tx) error {
			tx.AddEvents(writ.Event{Node: &writ.Node{Name: "undone"}})
			return writ.Errorf(writ.CodeConflict, "no")
		})
		if undone == nil {
			t.Fatal("the error of a change was lost")
		}
		write(t, j, func(tx *journal.Tx) error {
			tx.AddEvents(writ.Event{Node: &writ.Node{Name: "a"}}, writ.Event{Node: &writ.Node{Name: "b"}})
			return nil
		})
		events := <-got
		if len(events) != 2 || events[0].Seq != 1 || events[1].Seq != 2 || events[0].Journal != j.ID() || events[1].Node.Name != "b" {
			t.Errorf("events = %+v", events)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := j.Events(ctx, 2, 10); err == nil {
			t.Error("Events with a cancelled context returned no error")
		}
	})
}

func TestATokenIsSpentOnce(t *testing.T) {
	stores(t, func(t *testing.T, path string) {
		j := open(t, path)
		write(t, j, func(tx *journal.Tx) error {
			return tx.AddToken(journal.Token{ID: "t", Key: []byte("k"), Expires: time.Now().Add(time.Hour)})
		})
		for _, try := range []struct {
			token string
			want  bool
		}{{"t", true}, {"t", false}, {"unknown", false}} {
			write(t, j, func(tx *journal.Tx) error {
				spent, err := tx.SpendToken(try.token, "key")
				if spent != try.want {
					t.Errorf("SpendToken(%s) = %v, want %v", try.token, spent, try.want)
				}
				return err
			})
		}
	})
}

func TestATokenAdmitsAsManyAsItSays(t *testing.T) {
	stores(t, func(t *testing.T, path string) {
		j := open(t, path)
		write(t, j, func(tx *journal.Tx) error {
			return tx.AddToken(journal.Token{ID: "t", Key: []byte("k"), Expires: time.Now().Add(time.Hour), Uses: 3})
		})
		var won atomic.Int64
		var all sync.WaitGroup
		for n := range 20 {
			all.Go(func() {
				err := j.Write(t.Context(), func(tx *journal.Tx) error {
					spent, err := tx.SpendToken("t", envelope.KeyID(fmt.Sprint("key ", n)))
					if spent {
						won.Add(1)
					}
					return err
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if won.Load() != 3 {
			t.Errorf("it admitted %d", won.Load())
		}
		write(t, j, func(tx *journal.Tx) error {
			for _, left := range []int{5, 1} {
				if err := tx.AddToken(journal.Token{ID: fmt.Sprint("r", left), Key: []byte("k"), Expires: tx.Now.Add(time.Hour), Uses: left}); err != nil {
					return err
				}
				if was, err := tx.RevokeToken(fmt.Sprint("r", left)); !was || err != nil {
					t.Errorf("revoked: %v, %v", was, err)
				}
				if spent, err := tx.SpendToken(fmt.Sprint("r", left), "key"); spent || err != nil {
					t.Errorf("spend a revoked token: %v, %v", spent, err)
				}
			}
			return nil
		})
	})
}

func TestEpochsOnlyRise(t *testing.T) {
	stores(t, func(t *testing.T, path string) {
		j := open(t, path)
		now := time.Now()
		first, err := j.BeginEpoch(t.Context(), now)
		if err != nil {
			t.Fatal(err)
		}
		second, err := j.BeginEpoch(t.Context(), now.Add(-time.Hour)) // the clock went back
		if err != nil {
			t.Fatal(err)
		}
		if first != now.UnixMilli() || second != first+1 {
			t.Errorf("epochs %d, %d", first, second)
		}
	})
}

package sqlstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"writ"
	"writ/internal/test/linear"
	"writ/internal/test/testenv"
	"writ/ledger"
	"writ/ledger/sqlstore"
)

// Clients submit the same payload concurrently, each with its own signature, while the ledger is closed and opened
// again. The answers must be linearizable. The faulty twin reads before it writes.

type handedIn struct{ payload, signer string }

type handedOut struct {
	added  bool
	signer string // signer of the stored submission
}

var submitOnce = linear.Model[string, handedIn, handedOut]{
	Step: func(signer string, in handedIn, out handedOut) (string, bool) {
		if signer == "" {
			return in.signer, out == handedOut{true, in.signer}
		}
		return signer, out == handedOut{false, signer}
	},
	Maybe: func(signer string, in handedIn) string {
		if signer == "" {
			return in.signer
		}
		return signer
	},
	Key: func(in handedIn) string { return in.payload },
}

const handing = 4 // clients

func incoming(in handedIn) ledger.Incoming {
	digest := writ.DigestOf([]byte(in.payload))
	return ledger.Incoming{
		Submission: writ.Submission{Payload: digest, Run: writ.RunIDOf(digest), Datacenter: "dc", Project: "p", Signer: in.signer, Script: "s", State: writ.SubmissionWaiting},
		Signed:     []byte(in.signer),
	}
}

// handIn makes clients submit the same payloads, each twice.
func handIn(t *testing.T, path string, deaths int, add func(s *sqlstore.Store, in handedIn) (handedOut, error)) *linear.History[handedIn, handedOut] {
	t.Helper()
	const payloads = 12
	h := new(linear.History[handedIn, handedOut])
	store := &linear.Store[*sqlstore.Store]{Open: func() (*sqlstore.Store, error) { return sqlstore.Open(t.Context(), path) }}
	together := linear.Barrier{Of: handing}
	linear.Clients(handing, 20261121, func(id int, random *rand.Rand) {
		for payload := range payloads {
			together.Wait(fmt.Sprint(payload))
			for try := range 2 {
				in := handedIn{fmt.Sprint("payload ", payload), fmt.Sprintf("client %d, %d", id, try)}
				s, err := store.Now()
				if err != nil {
					t.Error(err)
					continue
				}
				ask := func() {
					_, err := h.Ask(id, in, func() (handedOut, error) { return add(s, in) })
					if err != nil && writ.CodeOf(err) != writ.CodeStoreUnavailable {
						t.Error(err)
					}
				}
				if random.IntN(handing*payloads) >= deaths {
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

func wantHistory(t *testing.T, h *linear.History[handedIn, handedOut], legal bool) {
	t.Helper()
	known, lost := h.Count()
	t.Logf("%d answers, %d lost", known, lost)
	if got, err := linear.Legal(submitOnce, h); err != nil || got != legal {
		t.Errorf("legal = %v, %v; want %v", got, err, legal)
	}
}

// Promise: Failures: Concurrent requests have the answers of some sequential order, also during kills.
// How: One writer, unique keys, and the epoch in each transaction; Porcupine checks histories, and each check has a
// twin without the mechanism that must fail.
// Also: TestOneConcurrentDeliveryStarts, TestConcurrentSubmissionsAreOneRun,
// TestDuplicatePayloadsAreDetected, TestTheFirstResultOfAnAttemptWins,
// TestOnlyLeaseHolderWrites, TestUnfencedOldHolderIsDetected,
// TestReplacedResultsAreDetected, TestCheckThenStartIsNotLinearizable,
// TestHistoryIsLegalIfSomeOrderExplainsIt.
func TestConcurrentSubmissionsAreOne(t *testing.T) {
	onBoth(t, func(t *testing.T, path string) {
		wantHistory(t, handIn(t, path, 6, func(s *sqlstore.Store, in handedIn) (handedOut, error) {
			stands, added, err := s.AddSubmission(t.Context(), incoming(in))
			return handedOut{added, stands.Signer}, err
		}), true)
	})
}

func TestReadBeforeWriteIsDetected(t *testing.T) {
	onBoth(t, func(t *testing.T, path string) {
		looked := linear.Barrier{Of: handing}
		wantHistory(t, handIn(t, path, 0, func(s *sqlstore.Store, in handedIn) (handedOut, error) {
			known, err := s.Submission(context.Background(), writ.DigestOf([]byte(in.payload)))
			looked.Wait(in.payload)
			if err == nil || writ.CodeOf(err) != writ.CodeNotFound {
				return handedOut{false, known.Signer}, err
			}
			_, _, err = s.AddSubmission(t.Context(), incoming(in)) // ignore the result
			return handedOut{true, in.signer}, err
		}), false)
	})
}

// onBoth runs a test with a ledger in a file and with one on PostgreSQL.
func onBoth(t *testing.T, test func(t *testing.T, path string)) {
	t.Run("sqlite", func(t *testing.T) { test(t, filepath.Join(t.TempDir(), "ledger.db")) })
	t.Run("postgresql", func(t *testing.T) { test(t, testenv.Postgres(t).Store()) })
}

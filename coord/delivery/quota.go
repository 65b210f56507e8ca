package delivery

import (
	"context"
	"sync"
	"time"

	"writ"
	"writ/ledger"
)

// Limits of the waiting submissions of one signer, and of all together. The total equals the number of open
// runs of one project that a supervisor permits.
var (
	signerWaits = ledger.Waits{Submissions: 50_000, Bytes: 512 << 20}
	allWait     = ledger.Waits{Submissions: 200_000, Bytes: 2 << 30}
)

// recountEvery is the interval between counts of the waiting submissions in the ledger. In between, deliveries and the
// submissions of other coordinators are not counted.
const recountEvery = 5 * time.Second

// Quota limits the waiting submissions, based on the last count and the submissions since then.
type Quota struct {
	Signer, All ledger.Waits // limits

	mu       sync.Mutex
	counted  time.Time
	counting bool                    // a caller is counting; others use the last count
	waits    map[string]ledger.Waits // by signer; the total is under ""
}

// reserve counts a new submission, or returns an error if a limit is reached. If the submission turns out to be
// recorded already, the caller must call release.
func (q *Quota) reserve(ctx context.Context, records ledger.Ledger, signer string, bytes int) error {
	if q.mustCount(time.Now()) {
		if err := q.count(ctx, records); err != nil {
			return err
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	one := ledger.Waits{Submissions: 1, Bytes: int64(bytes)}
	for _, bound := range []struct {
		who, key string
		most     ledger.Waits
	}{{signer, signer, q.Signer}, {"all signers together", "", q.All}} {
		have := q.waits[bound.key]
		if then := have.Plus(one); then.Submissions > bound.most.Submissions || then.Bytes > bound.most.Bytes {
			return writ.Errorf(writ.CodeRateLimited,
				"%d submissions (%d MiB) of %s wait for datacenters; the limit is %d (%d MiB)",
				have.Submissions, have.Bytes>>20, bound.who, bound.most.Submissions, bound.most.Bytes>>20).
				WithHint("wait until datacenters have accepted some submissions (`writ run list --state waiting`), then submit again; the count is updated every %s", recountEvery)
		}
	}
	q.add(signer, one)
	return nil
}

// release undoes the reservation of a submission that was not recorded.
func (q *Quota) release(signer string, bytes int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.add(signer, ledger.Waits{Submissions: -1, Bytes: -int64(bytes)})
}

// add changes the counts. The caller holds the lock.
func (q *Quota) add(signer string, w ledger.Waits) {
	q.waits[signer], q.waits[""] = q.waits[signer].Plus(w), q.waits[""].Plus(w)
}

// mustCount reports whether the caller must count the submissions in the ledger.
func (q *Quota) mustCount(now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	must := q.waits == nil || !q.counting && now.Sub(q.counted) >= recountEvery
	q.counting = q.counting || must
	return must
}

// count counts the waiting submissions in the ledger. It does not hold the lock while it reads; other callers use the
// last count.
func (q *Quota) count(ctx context.Context, records ledger.Ledger) error {
	waits, err := records.WaitingBySigner(ctx)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.counting = false
	if err != nil {
		return err
	}
	var all ledger.Waits
	for _, w := range waits {
		all = all.Plus(w)
	}
	waits[""] = all
	q.waits, q.counted = waits, time.Now()
	return nil
}

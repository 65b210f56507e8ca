package btrfs

import (
	"fmt"
	"sync"
	"time"

	"writ"
	"writ/sal"
)

// quotas keeps the quotas of a file system enabled. Operators disable quotas because they are slow, and some versions
// of snapper and Docker disabled them, too.
type quotas struct {
	dir  string // any directory of the file system
	step func(name string)

	mu        sync.Mutex // guards the fields below
	known     bool       // ensure has found or enabled quotas
	full      bool       // these were full quotas, not simple quotas
	rescanned time.Time  // start of the last rescan of full quotas
	running   time.Time  // when a rescan was last seen running
}

// quotasOff returns the error for quotas that another program has disabled. The next call enables them again.
func quotasOff(dir string) *writ.Error {
	return writ.Errorf(writ.CodeDriverFailed, "quotas are off at %s", dir).
		WithHint("the node enables them again within half a minute; find the program that ran `btrfs quota disable %s`",
			dir)
}

// ensure enables quotas and reports whether another program had disabled them. It enables the same kind of quotas that
// was enabled before. The kernel then rescans full quotas, while simple quotas count only data that is written later.
func (q *quotas) ensure() (lost bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	on, err := quotasOn(q.dir)
	if err != nil {
		return false, fmt.Errorf("check whether quotas are on: %w", err)
	}
	if !on {
		lost = q.known
		if err := enableQuota(q.dir, q.full); err != nil {
			return lost, writ.Errorf(sal.FaultCode(err), "quotas are off at %s and cannot be enabled: %w", q.dir, err).
				WithHint("btrfs quota enable %s", q.dir)
		}
	}
	simple, err := simpleQuota(q.dir)
	if err != nil {
		return lost, fmt.Errorf("read the kind of quotas: %w", err)
	}
	q.known, q.full = true, !simple
	return lost, nil
}

// Limits of the pause between the starts of two rescans of full quotas. A rescan reads the metadata of the whole file
// system, and each removal of a large tree makes the numbers inconsistent again. While the numbers are inconsistent,
// the kernel enforces no limit.
const (
	rescanPauseLeast = time.Minute
	rescanPauseMost  = time.Hour
	rescanShare      = 20 // rescans run for at most 1/rescanShare of the time
)

// rescanPause returns the pause between the starts of two rescans if the first one took the given time.
func rescanPause(took time.Duration) time.Duration {
	return min(max(rescanShare*took, rescanPauseLeast), rescanPauseMost)
}

// rescan starts a rescan if the numbers of full quotas are inconsistent.
func (q *quotas) rescan() error {
	running, err := rescanning(q.dir) // read before the flag of inconsistent, which a rescan clears before it ends
	if err != nil {
		return sal.HostError("read the state of quotas", err)
	}
	wrong, err := inconsistent(q.dir)
	if err != nil {
		return sal.HostError("read the state of quotas", err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	if running {
		q.running = now
		return nil
	}
	if !wrong || now.Sub(q.rescanned) < rescanPause(q.running.Sub(q.rescanned)) {
		return nil
	}
	q.rescanned = now
	q.step("rescan the quotas")
	return sal.HostError("rescan the quotas", rescan(q.dir))
}

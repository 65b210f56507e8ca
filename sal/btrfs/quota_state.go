package btrfs

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"writ"
	"writ/sal"
)

// quotaState records the quotas of a pool's file system. Other programs change them: operators disable slow quotas, and
// some versions of snapper and Docker did so, too.
type quotaState struct {
	known bool // quotas were on
	full  bool // they were full quotas, not simple ones

	rescanned time.Time // start of the last rescan of full quotas
}

// quotasOff returns the error for quotas that another program has disabled. The next call enables them again.
func quotasOff(dir string) *writ.Error {
	return writ.Errorf(writ.CodeDriverFailed, "quotas are off at %s", dir).
		WithHint("the node enables them again within half a minute; find the program that ran `btrfs quota disable %s`",
			dir)
}

// ensure enables quotas and reports whether another program had disabled them. It restores their kind: the kernel
// rescans full quotas, while simple quotas count only data that is written from now on.
func (q *quotaState) ensure(dir string) (lost bool, err error) {
	on, err := quotasOn(dir)
	if err != nil {
		return false, fmt.Errorf("check whether quotas are on: %w", err)
	}
	if !on {
		lost = q.known
		if err := enableQuota(dir, q.full); err != nil {
			return lost, writ.Errorf(sal.FaultCode(err), "quotas are off at %s and cannot be enabled: %w", dir, err).
				WithHint("btrfs quota enable %s", dir)
		}
	}
	simple, err := simpleQuota(dir)
	if err != nil {
		return lost, fmt.Errorf("read the kind of quotas: %w", err)
	}
	q.known, q.full = true, !simple
	return lost, nil
}

// rescanEvery is the shortest time between two rescans of full quotas. Ordinary work also makes numbers inconsistent,
// and a rescan reads the metadata of the whole file system.
const rescanEvery = time.Hour

// rescanQuotas starts a rescan if the numbers of full quotas are inconsistent.
func (p *Pool) rescanQuotas() error {
	wrong, err := inconsistent(p.Dir)
	if err != nil || !wrong {
		return sal.HostError("read the state of quotas", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.quotas.rescanned) < rescanEvery {
		return nil
	}
	p.quotas.rescanned = time.Now()
	p.step("rescan the quotas")
	return sal.HostError("rescan the quotas", rescan(p.Dir))
}

// groupError replaces the error for a missing quota group if quotas are off.
func groupError(dir string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if on, looked := quotasOn(dir); looked == nil && !on {
		return quotasOff(dir)
	}
	return err
}

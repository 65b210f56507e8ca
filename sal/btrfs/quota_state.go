package btrfs

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"writ"
	"writ/sal"
)

// quotaState is what a pool remembers of the quotas of its file system. Other programs may change them: people switch quotas off against
// slowness, snapper and Docker did so by themselves.
type quotaState struct {
	known bool // quotas were on
	full  bool // and full quota groups were used
	// counted is when full quotas were last counted anew.
	counted time.Time
}

// quotasOff is the error about quotas that another program has switched off since the last look. The next call switches them on again.
func quotasOff(dir string) *writ.Error {
	return writ.Errorf(writ.CodeDriverFailed, "quotas are off at %s", dir).
		WithHint("the node switches them on again within half a minute; look for the program that ran `btrfs quota disable %s`", dir)
}

// ensure switches quotas on and reports whether another program had switched them off. They get the kind that they had: full ones are
// counted anew by the kernel, simple ones count what is written from now on.
func (q *quotaState) ensure(dir string) (lost bool, err error) {
	on, err := quotasOn(dir)
	if err != nil {
		return false, fmt.Errorf("look whether quotas are on: %w", err)
	}
	if !on {
		lost = q.known
		if err := enableQuota(dir, q.full); err != nil {
			return lost, writ.Errorf(sal.FaultCode(err), "quotas are off at %s, and cannot be switched on: %w", dir, err).
				WithHint("btrfs quota enable %s", dir)
		}
	}
	simple, err := simpleQuota(dir)
	if err != nil {
		return lost, fmt.Errorf("look at the kind of quotas: %w", err)
	}
	q.known, q.full = true, !simple
	return lost, nil
}

// recountEvery limits how often full quotas are counted anew. The kernel stops to trust its numbers after ordinary work as well, and a count reads
// the metadata of the whole file system.
const recountEvery = time.Hour

// recountQuotas starts a new count if the kernel has stopped to trust its numbers.
func (p *Pool) recountQuotas() error {
	wrong, err := inconsistent(p.Dir)
	if err != nil || !wrong {
		return sal.HostError("look at the quotas", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.quotas.counted) < recountEvery {
		return nil
	}
	p.quotas.counted = time.Now()
	p.step("count the quotas anew")
	return sal.HostError("count the quotas", rescan(p.Dir))
}

// groupError names the cause when a quota group cannot be read.
func groupError(dir string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if on, looked := quotasOn(dir); looked == nil && !on {
		return quotasOff(dir)
	}
	return err
}

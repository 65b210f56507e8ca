package runner

import (
	"context"
	"time"

	"writ"
	"writ/runner/journal"
	"writ/sal"
	"writ/sal/catalog"
)

// maxUnseen is the longest time between two looks that is charged. What nobody looked at for longer may not have been there.
const maxUnseen = 10 * time.Minute

// charge returns what a resource has used between two readings, for each hour that they touch. The time between them is charged by what the
// resource has at the later one; bytes are those by which its counters grew, all of them in the later hour. Before the first reading there
// was no time.
func charge(resource writ.ResourceID, uid writ.UID, before journal.Reading, at time.Time, usage sal.Usage) []journal.Use {
	var all []journal.Use
	from := before.At
	if passed := at.Sub(from); from.IsZero() || passed < 0 || passed > maxUnseen {
		from = at // the clock was set, or nobody looked
	}
	for {
		hour := from.UTC().Truncate(time.Hour)
		until := earlier(hour.Add(time.Hour), at)
		passed := until.Sub(from)
		all = append(all, journal.Use{
			Resource: resource, UID: uid, Hour: hour,
			CPU: passed * time.Duration(usage.CPUs), Memory: passed * time.Duration(usage.MemoryMiB), Disk: passed * time.Duration(usage.DiskGiB),
		})
		if !until.Before(at) {
			break
		}
		from = until
	}
	last := &all[len(all)-1]
	last.Received, last.Sent = grown(before.Received, usage.Received), grown(before.Sent, usage.Sent)
	return all
}

// grown is how much a counter has counted since, which begins anew at 0 when what it counts for is started again.
func grown(before, now int64) int64 {
	if now < before {
		return max(now, 0)
	}
	return now - before
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// meter reads what a resource uses and returns what it has used since the last time. The reading counts once keepUsage has kept it.
func (k *keeper) meter(ctx context.Context, d sal.Metered, resource writ.ResourceID) []journal.Use {
	uid, usage, ok := k.read(ctx, "usage", readFor, d, resource)
	if !ok {
		return nil // nobody knows; the next look makes up for it
	}
	k.metering.Lock()
	defer k.metering.Unlock()
	if k.over[uid] {
		return nil
	}
	reading := journal.Reading{At: k.now(), Received: usage.Received, Sent: usage.Sent}
	before := k.before(uid)
	k.looked[uid] = reading
	return charge(resource, uid, before, reading.At, usage)
}

// read asks a driver what a resource uses. What names the question: of one that was asked and has not answered nobody knows.
func (k *keeper) read(ctx context.Context, what string, patience time.Duration, d sal.Metered, resource writ.ResourceID) (uid writ.UID, usage sal.Usage, known bool) {
	type answer struct {
		sal.Observation
		sal.Usage
	}
	a, err := asked(ctx, k, what+" "+resource.HostName(), patience, func(ctx context.Context) (a answer, err error) {
		if a.Observation, err = d.Observe(ctx, resource); err == nil && a.Exists {
			a.Usage, err = d.Usage(ctx, resource)
		}
		return a, err
	})
	if err != nil {
		k.log.WarnContext(ctx, "measure the use of a resource", "resource", resource.String(), "err", err)
	}
	return a.UID, a.Usage, err == nil && a.Exists
}

// before is the last reading of a resource. Called with metering.
func (k *keeper) before(uid writ.UID) journal.Reading {
	for _, readings := range []map[writ.UID]journal.Reading{k.looked, k.readings, k.begun} {
		if r, ok := readings[uid]; ok {
			return r
		}
	}
	return journal.Reading{}
}

// keepUsage keeps what a look found. If that cannot be kept, the next look charges what this one did not.
func (k *keeper) keepUsage(ctx context.Context, used []journal.Use) {
	k.metering.Lock()
	looked := k.looked
	k.metering.Unlock()
	err := k.noteStore(ctx, k.journal.Meter(context.WithoutCancel(ctx), used, looked)) // no look is under way, so looked stays
	k.metering.Lock()
	defer k.metering.Unlock()
	if err == nil {
		for uid, r := range looked {
			delete(k.begun, uid)
			if !k.over[uid] {
				k.readings[uid] = r
			}
		}
	}
	k.looked = make(map[writ.UID]journal.Reading)
	clear(k.over)
}

// lastReadFor is how long somebody who deletes a resource waits for what it has used.
const lastReadFor = 5 * time.Second

// metered carries out an operation, and charges what its resource uses from the moment at which it is there, and until it is not any more,
// instead of from the first look to the last.
func (k *keeper) metered(ctx context.Context, w *work, do func() (sal.Outcome, error)) (sal.Outcome, error) {
	d, ok := w.driver.(sal.Metered)
	if !ok || w.operation.Effect != catalog.Make && w.operation.Effect != catalog.Remove {
		return do()
	}
	var usage sal.Usage
	known := false
	if w.operation.Effect == catalog.Remove {
		var uid writ.UID
		uid, usage, known = k.read(ctx, "last usage", lastReadFor, d, w.resource())
		known = known && uid == w.job.UID
	}
	outcome, err := do()
	switch {
	case err != nil:
	case outcome.Change == writ.ChangeCreated:
		k.metering.Lock()
		k.begun[w.job.UID] = journal.Reading{At: k.now()}
		k.metering.Unlock()
	case known && outcome.Change == writ.ChangeDeleted:
		k.close(ctx, w, usage)
	}
	return outcome, err
}

// close charges a resource for the last time.
func (k *keeper) close(ctx context.Context, w *work, usage sal.Usage) {
	uid := w.job.UID
	k.metering.Lock()
	used := charge(w.resource(), uid, k.before(uid), k.now(), usage)
	k.over[uid] = true
	delete(k.begun, uid)
	delete(k.readings, uid)
	k.metering.Unlock()
	_ = k.noteStore(ctx, k.journal.Meter(context.WithoutCancel(ctx), used, nil)) // noted; what it used since the last look is not charged then
}

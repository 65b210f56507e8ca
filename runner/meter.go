package runner

import (
	"time"

	"writ"
	"writ/runner/journal"
	"writ/sal"
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

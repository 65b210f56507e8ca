package runs

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"writ"
	"writ/coord/dashboard/page"
	"writ/coord/dashboard/snapshot"
	"writ/ledger"
)

const (
	recountEvery = 5 * time.Second // minimum interval of counts for live updates, because a count may read many runs
	countsKept   = 64
)

// numbers holds the number of runs in each state, and of stuck runs, for the overview.
type numbers struct {
	at     time.Time
	states map[ledger.State]int
	stuck  int
}

// counted caches numbers for streams.
type counted struct {
	mu   sync.Mutex
	kept map[string]numbers
}

// numbersOf counts the runs for the overview: each number links to the list of the counted runs. A page load gets
// current numbers; its live updates may have numbers that are recountEvery old.
func (d *ListPages) numbersOf(
	ctx context.Context, own *url.URL, now *snapshot.Snapshot, filter ledger.RunFilter,
) (numbers, error) {
	if !narrow(filter) {
		chosen := func(project writ.ProjectID) bool {
			return len(filter.Projects) == 0 || slices.Contains(filter.Projects, project)
		}
		return numbers{now.At, now.Counts.Sum(chosen), sumOf(now.Stuck.Sum(chosen))}, nil
	}
	key := page.Address(own, "state", "") + fmt.Sprint(filter.Projects) // includes the readable projects
	if strings.HasPrefix(own.Path, "/live/") {
		d.counted.mu.Lock()
		n, known := d.counted.kept[key]
		d.counted.mu.Unlock()
		if known && now.At.Sub(n.at) < recountEvery {
			return n, nil
		}
	}
	n, err := d.recount(ctx, now, filter)
	if err != nil {
		return numbers{}, err
	}
	d.counted.mu.Lock()
	defer d.counted.mu.Unlock()
	if d.counted.kept == nil || len(d.counted.kept) >= countsKept {
		d.counted.kept = map[string]numbers{}
	}
	d.counted.kept[key] = n
	return n, nil
}

func (d *ListPages) recount(ctx context.Context, now *snapshot.Snapshot, filter ledger.RunFilter) (numbers, error) {
	filter.States = nil
	all, err := d.Ledger.CountRuns(ctx, filter)
	if err != nil {
		return numbers{}, err
	}
	filter.Silent = now.At.Add(-snapshot.StuckAfter).Truncate(time.Second)
	silent, err := d.Ledger.CountRuns(ctx, filter)
	return numbers{now.At, all.Total(), sumOf(silent.Total())}, err
}

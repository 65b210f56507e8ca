package snapshot

import (
	"context"
	"sync"
	"time"

	"writ"
	"writ/coord/api"
	"writ/internal/sleep"
)

const (
	sampleEvery = 5 * time.Second
	slotSeconds = 15 // length of a slot; the history of a queue has one sample per slot, the sample with the most calls
	slotsKept   = 60 // 15 minutes
)

// history holds the depths of the queues, sampled even without open pages.
type history struct {
	mu     sync.Mutex
	sums   []sample // sums of all queues, oldest first
	queues map[NodeKey]*track
}

// NodeKey identifies a node among the nodes of all datacenters.
type NodeKey struct {
	Datacenter writ.DatacenterID
	Node       writ.NodeID
}

// track is the history of one queue, a ring of slots.
type track [slotsKept]slot

// slot is the sample with the most calls in slotSeconds. A slot whose number differs from the expected one is outdated.
type slot struct {
	number                   int64
	running, queued, planned int32
}

// Run samples the depths of the queues until ctx ends. Without it, pages have no history.
func (s *Source) Run(ctx context.Context) error {
	sleep.Every(ctx, sampleEvery, func(ctx context.Context) { s.Sample(ctx, time.Now()) })
	return nil
}

// Sample records the current depths of the queues. A datacenter that does not answer in time leaves a gap.
func (s *Source) Sample(ctx context.Context, now time.Time) {
	asking, cancel := context.WithTimeout(ctx, datacenterTimeout)
	defer cancel()
	queues, err := s.LiveView.Queues(asking)
	if err != nil {
		if ctx.Err() == nil {
			s.Log.DebugContext(ctx, "sample the queues", "err", err)
		}
		return
	}
	s.History.Add(now, queues)
}

func (h *history) Add(now time.Time, queues []api.DatacenterQueues) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.queues == nil {
		h.queues = map[NodeKey]*track{}
	}
	number := now.Unix() / slotSeconds
	sum := sample{now.UnixMilli()}
	for _, dc := range queues {
		for _, q := range dc.Queues {
			sum[1] += int64(q.Running)
			sum[2] += int64(q.Queued)
			sum[3] += int64(q.Planned)
			key := NodeKey{dc.Datacenter, q.Node}
			if h.queues[key] == nil {
				h.queues[key] = new(track)
			}
			h.queues[key].add(number, q)
		}
	}
	for key, t := range h.queues {
		if t.newest() <= number-slotsKept { // the queue has no recent samples, because its node was removed
			delete(h.queues, key)
		}
	}
	h.sums = append(h.sums, sum)
	if n := len(h.sums); n >= 2*sumsKept {
		h.sums = append([]sample(nil), h.sums[n-sumsKept:]...)
	}
}

func (t *track) add(number int64, q writ.QueueDepth) {
	s := &t[number%slotsKept]
	if s.number != number {
		*s = slot{number: number}
	}
	if q.Running+q.Queued+q.Planned >= s.open() {
		s.running, s.queued, s.planned = int32(q.Running), int32(q.Queued), int32(q.Planned)
	}
}

func (s slot) open() int { return int(s.running + s.queued + s.planned) }

func (t *track) newest() (number int64) {
	for _, s := range t {
		number = max(number, s.number)
	}
	return number
}

// Samples returns the newest points of the chart of all queues, oldest first.
func (h *history) Samples() []sample {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]sample{}, h.sums[max(0, len(h.sums)-sumsKept):]...)
}

// Chart draws the history of a queue until now, without the current slot, so that the chart changes only once per slot.
func (h *history) Chart(key NodeKey, now time.Time) Chart {
	h.mu.Lock()
	defer h.mu.Unlock()
	var shown [slotsKept]slot
	last := now.Unix()/slotSeconds - 1
	for i := range shown {
		number := last - slotsKept + 1 + int64(i)
		shown[i].number = -1
		if t := h.queues[key]; t != nil && t[number%slotsKept].number == number {
			shown[i] = t[number%slotsKept]
		}
	}
	return chartOf(shown)
}

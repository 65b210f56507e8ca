package link

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"writ"
)

// Limits of the events that a coordinator receives. The cost of events is their size plus eventCost each, or valueCost
// for each JSON value in them if that is more. A datacenter at full speed on two cores sends 14,000 events and 6 MiB a
// second, with 420,000 JSON values. Its cost is 13 MiB a second.
const (
	eventsPerSecond = 16 << 20 // cost of the events of a datacenter
	eventsAtOnce    = 64 << 20 // cost of a burst
	eventCost       = 512      // of an event in addition to its bytes
	valueCost       = 32       // of a JSON value, if all values cost more than the events

	maxUndecoded = 32 << 20 // bytes of waiting frames of all datacenters; one frame of each datacenter does not count
	maxWaiting   = 4 << 20  // bytes of the waiting frames of one datacenter
	// maxDecoding limits the memory of the frames that are decoded and stored concurrently. Each JSON value counts as
	// valueMemory.
	maxDecoding = 64 << 20
	valueMemory = 256 // bytes
)

// intake limits the memory and the rate of the events that a coordinator receives from all datacenters. Batches of
// frames are decoded and stored in the order of their arrival, so each datacenter gets its turn. The zero value is
// ready to use.
type intake struct {
	perSecond, atOnce int // eventsPerSecond and eventsAtOnce if 0

	undecoded atomic.Int64
	once      sync.Once
	decoding  *semaphore.Weighted

	mu    sync.Mutex
	paces map[writ.DatacenterID]*rate.Limiter // kept between sessions
}

// admit reserves memory for a frame that waits. It returns false if the frames of all datacenters take too much memory.
func (i *intake) admit(bytes int) bool {
	if i.undecoded.Add(int64(bytes)) > maxUndecoded {
		i.release(bytes)
		return false
	}
	return true
}

func (i *intake) release(bytes int) { i.undecoded.Add(-int64(bytes)) }

// begin waits until a batch of frames with this size and number of JSON values may be decoded. The caller must call
// `end` afterwards.
func (i *intake) begin(ctx context.Context, bytes, values int) (end func(), err error) {
	i.once.Do(func() { i.decoding = semaphore.NewWeighted(maxDecoding) })
	n := int64(min(bytes+values*valueMemory, maxDecoding))
	if err := i.decoding.Acquire(ctx, n); err != nil {
		return nil, err
	}
	return func() { i.decoding.Release(n) }, nil
}

// charge counts stored events of a datacenter and returns how long its next events must wait.
func (i *intake) charge(datacenter writ.DatacenterID, bytes, events, values int) time.Duration {
	i.mu.Lock()
	defer i.mu.Unlock()
	pace := i.paces[datacenter]
	if pace == nil {
		if i.paces == nil {
			i.paces = map[writ.DatacenterID]*rate.Limiter{}
		}
		pace = rate.NewLimiter(rate.Limit(cmp.Or(i.perSecond, eventsPerSecond)), cmp.Or(i.atOnce, eventsAtOnce))
		i.paces[datacenter] = pace
	}
	cost := max(bytes+events*eventCost, values*valueCost)
	return pace.ReserveN(time.Now(), min(cost, pace.Burst())).Delay()
}

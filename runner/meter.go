package runner

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"writ"
	"writ/identity/envelope"
	"writ/internal/failpoint"
	"writ/runner/journal"
	"writ/sal"
	"writ/sal/catalog"
	"writ/supervisor/nodes"
)

// maxUnseen is the longest time between two readings that is charged. During a longer gap the resource may not have
// existed.
const maxUnseen = 10 * time.Minute

// charge returns the use of a resource between two readings, per hour. Its size at the later reading applies to the
// whole time. The growth of the byte counters is charged to the last hour. No time is charged without an earlier
// reading, after a gap of more than maxUnseen, or if the clock was set back.
func charge(
	resource writ.ResourceID, uid writ.UID, before journal.Reading, at time.Time, usage sal.Usage,
) []journal.Use {
	var all []journal.Use
	from := before.At
	if passed := at.Sub(from); from.IsZero() || passed < 0 || passed > maxUnseen {
		from = at // no earlier reading, the clock was set, or scans were missing
	}
	for {
		hour := from.UTC().Truncate(time.Hour)
		until := earlier(hour.Add(time.Hour), at)
		passed := until.Sub(from)
		all = append(all, journal.Use{
			Resource: resource, UID: uid, Hour: hour,
			CPU: passed * time.Duration(usage.CPUs) / 100, Memory: passed * time.Duration(usage.MemoryMiB),
			Disk: passed * time.Duration(usage.DiskGiB),
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

// grown returns the growth of a counter. A counter restarts at 0 when its resource restarts.
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

// meter charges the use of resources from their creation until their deletion.
type meter struct {
	*base
	calls *calls

	mu       sync.Mutex                   // guards the maps against jobs that create or delete resources during a scan
	readings map[writ.UID]journal.Reading // last readings, as in the journal
	scanned  map[writ.UID]journal.Reading // readings of the current scan
	begun    map[writ.UID]journal.Reading // start readings of resources created since the last scan
	closed   map[writ.UID]bool            // resources deleted since the scan began, already charged for the last time
}

// scan reads a resource's use and returns the use since the last reading. commit stores the reading as the last
// reading.
func (m *meter) scan(ctx context.Context, d sal.Metered, resource writ.ResourceID) []journal.Use {
	uid, usage, ok := m.read(ctx, "usage", readFor, d, resource)
	if !ok {
		return nil // unknown; the next scan charges it
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed[uid] {
		return nil
	}
	reading := journal.Reading{At: m.now(), Received: usage.Received, Sent: usage.Sent}
	before := m.before(uid)
	m.scanned[uid] = reading
	return charge(resource, uid, before, reading.At, usage)
}

// read asks a driver for the use of a resource. If an earlier call for the same resource and purpose (what) has not
// returned, the use is unknown.
func (m *meter) read(
	ctx context.Context, what string, patience time.Duration, d sal.Metered, resource writ.ResourceID,
) (uid writ.UID, usage sal.Usage, known bool) {
	type answer struct {
		sal.Observation
		sal.Usage
	}
	a, err := asked(ctx, m.calls, what+" "+resource.HostName(), patience, func(ctx context.Context) (a answer, err error) {
		if a.Observation, err = d.Observe(ctx, resource); err == nil && a.Exists {
			a.Usage, err = d.Usage(ctx, resource)
		}
		return a, err
	})
	if err != nil {
		m.log.WarnContext(ctx, "measure the usage of a resource", "resource", resource.String(), "err", err)
	}
	return a.UID, a.Usage, err == nil && a.Exists
}

// before returns the last reading of a resource. The caller holds mu.
func (m *meter) before(uid writ.UID) journal.Reading {
	for _, readings := range []map[writ.UID]journal.Reading{m.scanned, m.readings, m.begun} {
		if r, ok := readings[uid]; ok {
			return r
		}
	}
	return journal.Reading{}
}

// commit stores the use and the readings of a scan. If that fails, the next scan charges the same use.
func (m *meter) commit(ctx context.Context, used []journal.Use) {
	m.mu.Lock()
	scanned := m.scanned
	m.mu.Unlock()
	// No scan is running, so the map does not change.
	err := m.store.note(ctx, m.journal.Usage.Add(context.WithoutCancel(ctx), used, scanned))
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil {
		for uid, r := range scanned {
			delete(m.begun, uid)
			if !m.closed[uid] {
				m.readings[uid] = r
			}
		}
	}
	m.scanned = make(map[writ.UID]journal.Reading)
	clear(m.closed)
}

// lastReadFor limits how long a delete waits for the final reading.
const lastReadFor = 5 * time.Second

// charged carries out an operation. It charges a resource from its creation until its deletion, not only from the first
// scan to the last.
func (m *meter) charged(ctx context.Context, w *work, do func() (sal.Outcome, error)) (sal.Outcome, error) {
	d, ok := w.driver.(sal.Metered)
	if ok && w.operation.Effect == catalog.Run {
		return m.chargedForCall(ctx, w, do)
	}
	if !ok || w.operation.Effect != catalog.Make && w.operation.Effect != catalog.Remove {
		return do()
	}
	var usage sal.Usage
	known := false
	if w.operation.Effect == catalog.Remove {
		var uid writ.UID
		uid, usage, known = m.read(ctx, "last usage", lastReadFor, d, w.resource())
		known = known && uid == w.job.UID
	}
	outcome, err := do()
	switch {
	case err != nil:
	case outcome.Change == writ.ChangeCreated:
		m.mu.Lock()
		m.begun[w.job.UID] = journal.Reading{At: m.now()}
		m.mu.Unlock()
	case known && outcome.Change == writ.ChangeDeleted:
		m.close(ctx, w, usage)
	}
	return outcome, err
}

// chargedForCall carries out an operation whose resource exists only during its call. It charges the requested capacity
// for the time of the call.
func (m *meter) chargedForCall(
	ctx context.Context, w *work, do func() (sal.Outcome, error),
) (sal.Outcome, error) {
	m.mu.Lock()
	if m.before(w.job.UID).At.IsZero() { // otherwise an earlier incarnation began the operation
		m.begun[w.job.UID] = journal.Reading{At: m.now()}
	}
	m.mu.Unlock()
	outcome, err := do()
	need := w.operation.Needs(w.operation.Args.Fill(w.job.Args))
	m.close(context.WithoutCancel(ctx), w, sal.Usage{CPUs: need.CPU(), MemoryMiB: need.MemoryMiB})
	return outcome, err
}

// close charges a resource for the last time.
func (m *meter) close(ctx context.Context, w *work, usage sal.Usage) {
	uid := w.job.UID
	m.mu.Lock()
	used := charge(w.resource(), uid, m.before(uid), m.now(), usage)
	m.closed[uid] = true
	delete(m.begun, uid)
	delete(m.readings, uid)
	m.mu.Unlock()
	// note logs a failure. The use since the last scan is then not charged.
	_ = m.store.note(ctx, m.journal.Usage.Add(context.WithoutCancel(ctx), used, nil))
}

// remnants is the disk space of data that belongs to no resource, in bytes. The supervisor accounts only for resources,
// so the node subtracts remnants from its capacity.
type remnants struct{ bytes atomic.Int64 }

// measure sums the remnants of all drivers. If a driver does not answer, the last value remains.
func (r *remnants) measure(ctx context.Context, k *keeper) {
	var sum int64
	for _, d := range k.drivers {
		keeping, ok := d.(sal.Remnants)
		if !ok {
			continue
		}
		module := d.Describe().Module
		bytes, err := asked(ctx, &k.calls, "measure remnants of "+module, readFor, keeping.RemnantBytes)
		if err != nil {
			k.log.WarnContext(ctx, "measure the data of deleted resources", "module", module, "err", err)
			return
		}
		sum += bytes
	}
	r.bytes.Store(sum)
}

// offered returns the part of a capacity that is left for resources.
func (r *remnants) offered(has writ.Capacity) writ.Capacity {
	const gib = 1 << 30
	has.DiskGiB = max(0, has.DiskGiB-(r.bytes.Load()+gib-1)/gib)
	return has
}

const (
	// loadEvery is the interval between two measurements of the load, each followed by a report.
	loadEvery = 30 * time.Second
	// loadFor limits a driver's time for the load of one resource.
	loadFor = 5 * time.Second
)

// loads measures the load of the resources of a node and reports it. The use of processors is the mean between two
// measurements. Reports are not acknowledged: the next one replaces a lost one.
type loads struct {
	*base
	drivers []sal.Gauged
	calls   calls
	count   int64
	before  map[writ.ResourceID]reading // readings of the last measurement; used by the run goroutine only

	mu   sync.Mutex
	last map[writ.ResourceID]nodes.Load // for metrics
}

// reading is a measurement of a driver.
type reading struct {
	sal.Load
	at time.Time
}

func newLoads(b *base, drivers map[string]sal.Driver) *loads {
	l := &loads{base: b, before: make(map[writ.ResourceID]reading)}
	for _, name := range slices.Sorted(maps.Keys(drivers)) {
		if d, ok := drivers[name].(sal.Gauged); ok {
			l.drivers = append(l.drivers, d)
		}
	}
	return l
}

// run measures and reports every loadEvery, until ctx ends.
func (l *loads) run(ctx context.Context) {
	if len(l.drivers) == 0 {
		return
	}
	tick := time.NewTicker(loadEvery)
	defer tick.Stop()
	for {
		l.measure(ctx)
		if ctx.Err() == nil {
			l.report(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// measure reads the load of all resources. The load of a resource is unknown after its first reading, and while its
// driver does not answer.
func (l *loads) measure(ctx context.Context) {
	now, readings := make(map[writ.ResourceID]nodes.Load), make(map[writ.ResourceID]reading)
	for _, d := range l.drivers {
		module := d.Describe().Module
		resources, err := asked(ctx, &l.calls, "list "+module, loadFor, d.List)
		if err != nil && ctx.Err() == nil {
			l.log.WarnContext(ctx, "list the resources of a driver", "driver", d.Describe().Name, "err", err)
		}
		for _, resource := range resources {
			load, err := asked(ctx, &l.calls, "load of "+resource.HostName(), loadFor,
				func(ctx context.Context) (sal.Load, error) { return d.Load(ctx, resource) })
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				l.log.DebugContext(ctx, "measure the load of a resource", "resource", resource.String(), "err", err)
				continue
			}
			if load.UID == "" { // the resource is missing, or has no processes of its own
				continue
			}
			r := reading{load, time.Now()}
			readings[resource] = r
			if before, known := l.before[resource]; known && before.UID == r.UID {
				now[resource] = loadBetween(before, r)
			}
		}
	}
	l.before = readings
	l.mu.Lock()
	l.last = now
	l.mu.Unlock()
}

// loadBetween returns the load of a resource between two readings.
func loadBetween(before, now reading) nodes.Load {
	load := nodes.Load{UID: now.UID, Running: now.Running, Memory: now.Memory, Restarts: now.Restarts}
	used, passed := now.CPU-before.CPU, now.at.Sub(before.at)
	if used < 0 { // the processes of the resource were restarted
		used = now.CPU
	}
	if passed > 0 && now.Running {
		load.MilliCPUs = int64(used * 1000 / passed)
	}
	return load
}

// current returns the last loads, by resource.
func (l *loads) current() map[writ.ResourceID]nodes.Load {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// report sends the loads of the last measurement, at most nodes.MaxLoads.
func (l *loads) report(ctx context.Context) {
	current := l.current()
	if len(current) == 0 {
		return
	}
	r := &nodes.LoadReport{Node: l.node, Incarnation: l.number, Count: l.count + 1, Epoch: l.epochs.highest()}
	r.Loads = slices.SortedFunc(maps.Values(current), func(a, b nodes.Load) int { return cmp.Compare(a.UID, b.UID) })
	r.Loads = r.Loads[:min(len(r.Loads), nodes.MaxLoads)]
	if l.link.send(failpoint.At(ctx, failpoint.LoadSent), envelope.Load, r) == nil { // failures are logged by send
		l.count = r.Count
	}
}

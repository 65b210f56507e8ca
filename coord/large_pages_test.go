package coord

import (
	"bufio"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"writ"
	"writ/coord/access"
	"writ/internal/sleep"
	"writ/internal/test/testenv"
	"writ/ledger"
	"writ/ledger/sqlstore"
	"writ/supervisor/link"
)

// The contents of a large ledger.
const (
	largeRuns   = 20_000
	largeCalls  = 5 // of each run
	largeNodes  = 500
	largeMade   = 20_000 // resources
	callsOfLast = 2_000  // of the run whose pages are measured
)

// TestPagesOfALargeLedger requests every page of the dashboard of a coordinator whose ledger has 100,000 jobs, 20,000
// runs and 500 nodes, and prints the times of the first and the deepest page of each list. Then 50 streams watch for a
// minute, and it prints the memory of the process.
func TestPagesOfALargeLedger(t *testing.T) {
	if !testenv.IsLong() {
		t.Skipf("a measurement: task pages (%s=1 runs it)", testenv.LongVar)
	}
	began := time.Now()
	path := filepath.Join(t.TempDir(), "ledger.db")
	last := fillLarge(t, path)
	store, err := sqlstore.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	p := startLarge(t, store)
	t.Logf("the ledger has %d runs, %d calls, %d resources and %d nodes, after %s", largeRuns+1, largeRuns*largeCalls+callsOfLast, largeMade, largeNodes, time.Since(began).Round(time.Second))
	token := p.token("bob")
	node := "/nodes/" + string(vienna) + "/" + string(largeNode(7))
	month := time.Now().UTC().Format("2006-01")
	t.Logf("| %-34s | %6s | %14s | %14s | %8s |", "page", "pages", "first ms", "deepest ms", "most KB")
	for _, path := range []string{
		"/", "/?state=succeeded", "/?state=failed", "/?project=" + string(shop), "/?signer=signer-3", "/?script=web-7.tengo", "/?deployment=deployment-77", "/?since=24h", "/?text=web-7", "/?text=NO_CAPACITY", "/?text=nothing+has+this",
		"/stuck", "/stuck?for=1m&project=" + string(shop), "/failures?since=2160h", "/deployments", "/resources", "/resources?kind=volume", "/resources?node=" + string(largeNode(7)),
		"/resources?troubled=1", "/resources/" + string(vienna) + "/" + string(shop) + "/volume/made-00000", "/deployments/" + string(vienna) + "/" + string(shop) + "/deployment-78",
		"/queues", "/nodes", node, "/datacenters", "/secrets", "/usage?month=" + month, "/usage?month=" + month + "&project=" + string(shop),
		"/runs/" + string(last), "/runs/" + string(last) + "/timeline", "/runs/" + string(last) + "/values", "/runs/" + string(last) + "/log",
	} {
		p.measurePage(token, path)
	}
	p.measureStreams(t, token, last)
}

// startLarge serves a coordinator of a ledger, with a datacenter of many nodes that answers all verbs.
func startLarge(t *testing.T, store ledger.Ledger) *fixture {
	t.Helper()
	p := start(t, func(c *Config) {
		c.Ledger, c.Self, c.RequestsPerSecond, c.MaxStreams = store, &access.Self{ID: frontID, Key: key("front")}, 1e6, 1000
	})
	if _, err := p.AddRoster(t.Context(), signedRoster(t, readingRoster(t, p.PublicURL))); err != nil {
		t.Fatal(err)
	}
	connect(p, vienna, func(s *supervisor) {
		hello := s.dialer.Hello
		s.dialer.Hello = func() link.Hello {
			h := hello()
			h.Verbs = slices.Clone(link.ToSupervisor)
			return h
		}
		for n := range largeNodes {
			s.nodes = append(s.nodes, link.NodeNow{ID: largeNode(n), Admission: writ.AdmissionApproved, Scheduling: writ.SchedulingOpen, Liveness: writ.LivenessReady, LastBeat: time.Now()})
		}
		s.dialer.Handle = func(ctx context.Context, verb link.Verb, params json.RawMessage) (any, error) {
			if verb == link.VerbQueues {
				return largeQueues(), nil
			}
			return s.tellAll(ctx, verb, params)
		}
	})
	return p
}

func largeNode(n int) writ.NodeID {
	return writ.NodeID(fmt.Sprintf("0192f6c2-0000-7000-8000-%012d", n))
}

func largeQueues() []writ.QueueDepth {
	depths := make([]writ.QueueDepth, largeNodes)
	for n := range depths {
		depths[n] = writ.QueueDepth{Node: largeNode(n), NodeName: fmt.Sprintf("node-%03d", n), Running: n % 9, Queued: n % 7, Planned: n % 5}
	}
	return depths
}

// largeRun is the n-th run of a large ledger: one in ten failed, one in forty is open.
func largeRun(n int, now time.Time) writ.Run {
	payload := writ.DigestOf(fmt.Appendf(nil, "large %d", n))
	accepted := now.Add(-time.Duration(largeRuns-n) * 2 * time.Minute)
	r := writ.Run{
		ID: writ.RunIDOf(payload), Datacenter: vienna, Project: shop, ProjectName: "web-shop", Signer: fmt.Sprintf("signer-%d", n%40), Script: fmt.Sprintf("web-%d.tengo", n%50),
		Payload: payload, State: writ.RunSucceeded, Accepted: accepted, Started: accepted, Ended: accepted.Add(time.Minute), Deadline: accepted.Add(time.Hour), Deployment: fmt.Sprintf("deployment-%d", n%300),
	}
	if n%3 == 0 {
		r.Project, r.ProjectName = blog, "web-blog"
	}
	switch {
	case n%40 == 7:
		r.State, r.Ended = writ.RunRunning, time.Time{}
	case n%10 == 1:
		codes := []writ.Code{writ.CodeNoCapacity, writ.CodeExecError, writ.CodeNodeLost}
		r.State, r.Failure = writ.RunFailed, &writ.Failure{Error: writ.Error{Code: codes[n/10%len(codes)], Message: "it could not be done"}, Seq: largeCalls}
	}
	return r
}

func largeCall(r writ.Run, seq int) writ.Call {
	c := writ.Call{
		Run: r.ID, Seq: seq, Operation: "machine.create", Kind: writ.KindMachine, Name: fmt.Sprintf("machine-%d", seq), Position: fmt.Sprintf("%s:%d:3", r.Script, seq), State: writ.CallSucceeded,
		Node: largeNode(seq % largeNodes), NodeName: fmt.Sprintf("node-%03d", seq%largeNodes), Driver: "cloudhypervisor", Change: writ.ChangeCreated, Attempt: 1, Delivery: 1,
		Planned: r.Accepted, Queued: r.Accepted.Add(time.Second), Started: r.Accepted.Add(2 * time.Second), Ended: r.Accepted.Add(20 * time.Second),
	}
	if r.Ended.IsZero() && seq == largeCalls {
		c.State, c.Started, c.Ended, c.Reason = writ.CallQueued, time.Time{}, time.Time{}, "waits for a slot"
	}
	return c
}

// fillLarge creates a large ledger at path and returns its newest run, which has many calls and is open. Its last event
// is an hour old.
func fillLarge(t *testing.T, path string) writ.RunID {
	t.Helper()
	store, err := sqlstore.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().UTC()
	var batch []writ.Event
	seq := int64(0)
	flush := func() {
		if err := store.StoreEvents(t.Context(), vienna, batch); err != nil {
			t.Fatal(err)
		}
		batch = batch[:0]
	}
	put := func(e writ.Event) {
		seq++
		e.Journal, e.Seq, e.Time = "a large journal", seq, now
		if batch = append(batch, e); len(batch) == 1000 {
			flush()
		}
	}
	for n := range largeNodes {
		put(writ.Event{Node: &writ.Node{
			ID: largeNode(n), Name: fmt.Sprintf("node-%03d", n), Admission: writ.AdmissionApproved, Scheduling: writ.SchedulingOpen, Liveness: writ.LivenessReady, Health: writ.Health{Slots: 8,
				Capacity: writ.Capacity{CPUs: 32, MemoryMiB: 256 << 10, DiskGiB: 3800}, Drivers: []writ.NodeDriver{{Module: "machine", Name: "cloudhypervisor"}, {Module: "volume", Name: "btrfs"}}},
		}})
	}
	for n := range largeRuns {
		r := largeRun(n, now)
		put(writ.Event{Run: &r})
		for seq := range largeCalls {
			c := largeCall(r, seq+1)
			put(writ.Event{Call: &c})
		}
		if r.Failure != nil { // the failed operation is known once the calls exist
			put(writ.Event{Run: &r})
		}
	}
	for n := range largeMade {
		id := writ.ResourceID{Project: []writ.ProjectID{shop, blog}[n%2], Kind: []writ.ResourceKind{writ.KindVolume, writ.KindMachine, writ.KindNetwork}[n%3], Name: fmt.Sprintf("made-%05d", n)}
		put(writ.Event{Resource: &writ.Resource{ResourceID: id, UID: writ.UID(id.Name), Node: largeNode(n % largeNodes), Deployment: fmt.Sprintf("deployment-%d", n%300), Driver: "btrfs", Standing: writ.Standing{State: "ready"}, Run: largeRun(n%largeRuns, now).ID, Updated: now}})
		for hour := range 5 {
			put(writ.Event{Usage: &writ.Usage{ResourceID: id, UID: writ.UID(id.Name), Node: largeNode(n % largeNodes), Hour: now.Truncate(time.Hour).Add(-time.Duration(hour) * time.Hour), Used: writ.Used{CPUSeconds: 3600}}})
		}
	}
	last := largeRun(largeRuns+7, now)
	put(writ.Event{Run: &last})
	for n := range callsOfLast {
		c := largeCall(last, n+1)
		c.Attempt = 1 + n%3
		for attempt := 1; attempt < c.Attempt; attempt++ {
			before := c
			before.Attempt, before.State = attempt, writ.CallRunning
			put(writ.Event{Call: &before})
		}
		put(writ.Event{Call: &c})
	}
	flush()
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "UPDATE events SET stored = stored - $1", time.Hour.Microseconds()); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return last.ID
}

var nextLink = regexp.MustCompile(`href="([^"]+)" rel="next"`)

// measurePage requests the first and the deepest page of a list several times and prints the medians, and the slowest
// response.
func (p *fixture) measurePage(token, path string) {
	p.t.Helper()
	pages, most := 0, 0
	deepest := path
	for at := path; at != ""; pages++ {
		deepest = at
		status, body := p.as(token, http.MethodGet, at)
		if status != http.StatusOK {
			p.t.Fatalf("GET %s: %d\n%s", at, status, body)
		}
		most, at = max(most, len(body)), ""
		if link := nextLink.FindStringSubmatch(body); link != nil {
			at = html.UnescapeString(link[1])
		}
	}
	median := func(path string) string {
		const times = 9
		var took []time.Duration
		for n := range times {
			if n == 0 {
				_ = sleep.For(p.t.Context(), time.Second) // until the state that all pages share is read again
			}
			began := time.Now()
			p.as(token, http.MethodGet, path)
			took = append(took, time.Since(began))
		}
		slices.Sort(took)
		return fmt.Sprintf("%.1f (%.0f)", took[times/2].Seconds()*1e3, took[times-1].Seconds()*1e3)
	}
	p.t.Logf("| %-34s | %6d | %14s | %14s | %8.1f |", strings.NewReplacer(string(shop), "P", string(vienna), "D", string(largeNode(7)), "N").Replace(path), pages, median(path), median(deepest), float64(most)/1e3)
}

// measureStreams watches pages for a minute while the ledger gets events, and prints the memory of the process.
func (p *fixture) measureStreams(t *testing.T, token string, run writ.RunID) {
	t.Helper()
	const streams, minute = 50, time.Minute
	paths := []string{"/live/", "/live/stuck", "/live/nodes", "/live/queues", "/live/runs/" + string(run), "/live/resources", "/live/failures", "/live/?signer=signer-3"}
	ctx, stop := context.WithCancel(t.Context())
	var frames atomic.Int64
	var watching sync.WaitGroup
	t.Logf("in memory before: %s", inMemory())
	for n := range streams {
		watching.Go(func() { p.countFrames(ctx, token, paths[n%len(paths)], &frames) })
	}
	began := time.Now()
	for n := 0; time.Since(began) < minute; n++ {
		r := largeRun(largeRuns+100+n, time.Now())
		e := writ.Event{Run: &r, Journal: "another large journal", Seq: int64(n + 1), Time: time.Now()}
		if err := p.Ledger.StoreEvents(ctx, vienna, []writ.Event{e}); err != nil {
			t.Fatal(err)
		}
		p.news.Wake()
		if n%100 == 50 {
			t.Logf("in memory after %2.0f s: %s, %d frames", time.Since(began).Seconds(), inMemory(), frames.Load())
		}
		_ = sleep.For(ctx, 100*time.Millisecond)
	}
	stop()
	watching.Wait()
	t.Logf("in memory when all have left: %s, %d frames", inMemory(), frames.Load())
}

// countFrames reads a stream until ctx ends.
func (p *fixture) countFrames(ctx context.Context, token, path string, frames *atomic.Int64) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.PublicURL+path, nil)
	if err != nil {
		p.t.Error(err)
		return
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := p.client.Client.Do(request)
	if err != nil {
		p.t.Error(err)
		return
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		p.t.Errorf("%s: %s", path, response.Status)
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "id: ") {
			frames.Add(1)
		}
	}
	if err := cmp.Or(ctx.Err(), lines.Err()); ctx.Err() == nil {
		p.t.Errorf("%s: the stream ended: %v", path, err)
	}
}

// inMemory returns the reachable memory after a garbage collection.
func inMemory() string {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return fmt.Sprintf("%.1f MiB in use, %d goroutines", float64(m.HeapAlloc)/(1<<20), runtime.NumGoroutine())
}

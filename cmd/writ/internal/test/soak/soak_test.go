//go:build linux

package soak

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"writ"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/test/testcluster"
	"writ/coord/api"
	"writ/identity"
	"writ/identity/target"
	"writ/internal/test/testenv"
)

var howLong = flag.Duration("for", 30*time.Minute, "how long the load lasts")

const (
	calibration = 20 * time.Second // under full load, to determine half of it
	inFlight    = 50
	samples     = 60 // per process, evenly distributed
)

func TestMain(m *testing.M) {
	code := m.Run()
	if err := testcluster.RemoveBinaries(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// script makes ten calls and leaves no resources.
const script = `
node := import("node")
herodb := import("herodb")
run := import("run")
params := {name: {type: "string"}}
for i := 0; i < 8; i++ {
	node.ping().err // waits for the end
}
db := herodb.create(run.params.name, {memory_mib: 16})
run.log(db.address)
herodb.delete(db)
run.output({done: true})
`

// TestSoak watches all processes under half load. A short time (-for) only shows that all values are measured. The
// slopes are meaningful after half an hour.
//
// Promise: Failures: Heap, goroutines and descriptors of long-running processes do not grow.
// How: Caches are bounded by number or bytes; a store has at most eight connections for readers.
func TestSoak(t *testing.T) {
	testenv.Nightly(t, "packages that start goroutines look for leaked ones")
	long := testenv.IsLong()
	if !long {
		*howLong = min(*howLong, 8*time.Second)
	}
	s := newSoak(t)
	full := calibration
	if !long {
		full = 3 * time.Second
	}
	ran := s.load(full, 0)
	rate := float64(ran) / full.Seconds() / 2
	t.Logf("full load: %.0f runs/s; from now on %.0f", 2*rate, rate)

	before := s.rest()
	watching, stop := context.WithCancel(t.Context())
	var watch sync.WaitGroup
	watch.Go(func() { s.watch(watching, *howLong/samples) })
	ran = s.load(*howLong, rate)
	stop()
	watch.Wait()
	after := s.rest()
	t.Logf("%d runs of ten calls in %s", ran, *howLong)
	if ran == 0 {
		t.Error("nothing ran")
	}
	s.show()
	compare(t, before, after)
}

type soak struct {
	*testcluster.Cluster
	t          *testing.T
	roster     *identity.Roster
	person     *client.Person
	datacenter writ.DatacenterID
	number     atomic.Int64
	series     map[string]*series // by process
}

func newSoak(t *testing.T) *soak {
	cluster := testcluster.New(t)
	cluster.Add(testcluster.Datacenter{Name: "dc1", Redis: testenv.Redis(t).URL, Nodes: 2, Speed: "0"})
	s := &soak{Cluster: cluster, t: t, series: map[string]*series{}}
	var err error
	if s.roster, err = cluster.Client.Roster.Newest(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.person, err = cluster.Client.Person(t.Context(), s.roster); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.person.Close() })
	s.datacenter = s.roster.Datacenters[0].ID
	return s
}

// load submits runs for a period and returns the number of ended runs. rate is the number per second; 0 means as fast
// as runs end.
func (s *soak) load(lasts time.Duration, rate float64) int64 {
	ctx, stop := context.WithTimeout(s.t.Context(), lasts)
	defer stop()
	var all sync.WaitGroup
	var ended atomic.Int64
	room := make(chan struct{}, inFlight)
	due := time.Now()
	for ctx.Err() == nil {
		if rate > 0 {
			due = due.Add(time.Duration(float64(time.Second) / rate))
			select {
			case <-time.After(time.Until(due)):
			case <-ctx.Done():
			}
		}
		select {
		case room <- struct{}{}:
			all.Go(func() {
				defer func() { <-room }()
				switch err := s.one(); {
				case err == nil:
					ended.Add(1)
				case writ.CodeOf(err) == writ.CodeRateLimited: // full load is the coordinator's limit for one address
					time.Sleep(time.Second)
				default:
					s.t.Error(err)
					stop()
				}
			})
		case <-ctx.Done():
		}
	}
	all.Wait()
	return ended.Load()
}

// one executes a run and verifies its end.
func (s *soak) one() error {
	order := client.Order{
		Script: client.NewScript("soak.tengo", []byte(script)), Params: map[string]any{"name": fmt.Sprintf("db-%d", s.number.Add(1))},
		Datacenter: s.datacenter, Project: s.roster.Projects[0],
		Expires: identity.DefaultValidity, Deadline: time.Hour, MaxCalls: 10, Targets: []string{target.Any},
	}
	signed, err := order.Sign(s.roster, s.person)
	if err != nil {
		return err
	}
	submission, err := s.Client.Orders.Submit(s.t.Context(), signed)
	if err != nil {
		return err
	}
	run, err := s.Client.Streams.Watch(s.t.Context(), submission.Run, client.Watcher{Event: func(api.Event) {}})
	if err != nil {
		return err
	}
	summary, err := client.Outcome(s.roster, run)
	if err == nil && summary.State != writ.RunSucceeded {
		err = fmt.Errorf("run %s is %s: %+v", run.ID, summary.State, summary.Failure)
	}
	return err
}

// looksAtRest is the number of measurements per process while no run is active.
const looksAtRest = 5

// rest measures all processes while no run is active. Memory that is held then is never released.
func (s *soak) rest() map[string]*series {
	under := s.series
	s.series = map[string]*series{}
	for range looksAtRest {
		s.look(time.Now())
	}
	found := s.series
	s.series = under
	return found
}

// watch measures all processes periodically.
func (s *soak) watch(ctx context.Context, every time.Duration) {
	began := time.Now()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.look(began)
		}
	}
}

// look measures all processes once.
func (s *soak) look(began time.Time) {
	for name, p := range s.Procs {
		if strings.HasPrefix(name, "add ") {
			continue
		}
		if s.series[name] == nil {
			s.series[name] = &series{}
		}
		if err := s.series[name].look(p, time.Since(began)); err != nil {
			s.t.Errorf("measure %s: %v", name, err)
		}
	}
}

// series holds the measurements of a process.
type series struct {
	at          []float64 // in hours
	heap        []float64 // reachable, in MiB
	resident    []float64 // in MiB
	goroutines  []float64
	descriptors []float64
}

var reported = regexp.MustCompile(`(?m)^time=\S+ .*msg="this process holds" .*heap_bytes=(\d+) goroutines=(\d+)`)

// look measures a process, from its own report and from the kernel.
func (l *series) look(p *testcluster.Proc, since time.Duration) error {
	before := lastReport(p)
	if err := p.Cmd.Process.Signal(syscall.SIGUSR1); err != nil {
		return err
	}
	last := before
	for late := time.Now().Add(testcluster.Patience); last == nil || before != nil && last[0] == before[0]; last = lastReport(p) {
		if time.Now().After(late) {
			return fmt.Errorf("it does not answer")
		}
		time.Sleep(10 * time.Millisecond)
	}
	heap, _ := strconv.ParseFloat(last[1], 64)
	goroutines, _ := strconv.ParseFloat(last[2], 64)
	proc := filepath.Join("/proc", strconv.Itoa(p.Cmd.Process.Pid))
	open, err := os.ReadDir(filepath.Join(proc, "fd"))
	if err != nil {
		return err
	}
	statm, err := os.ReadFile(filepath.Join(proc, "statm"))
	if err != nil {
		return err
	}
	pages, err := strconv.ParseFloat(strings.Fields(string(statm))[1], 64)
	if err != nil {
		return err
	}
	l.at = append(l.at, since.Hours())
	l.heap = append(l.heap, heap/(1<<20))
	l.resident = append(l.resident, pages*float64(os.Getpagesize())/(1<<20))
	l.goroutines = append(l.goroutines, goroutines)
	l.descriptors = append(l.descriptors, float64(len(open)))
	return nil
}

// lastReport returns the latest report that a process wrote, or nil.
func lastReport(p *testcluster.Proc) []string {
	if all := reported.FindAllStringSubmatch(p.Said(), -1); len(all) > 0 {
		return all[len(all)-1]
	}
	return nil
}

// show prints the growth under load. It omits the first third, in which caches fill up.
func (s *soak) show() {
	for _, name := range slices.Sorted(maps.Keys(s.series)) {
		l := s.series[name]
		for _, m := range l.measures() {
			n := len(m.values)
			if n < 3 {
				s.t.Fatalf("%s was looked at %d times", name, n)
			}
			s.t.Logf("%-8s %-12s median %8.1f, slope %+.2f an hour", name, m.what, median(m.values[n/3:]), slope(l.at[n/3:], m.values[n/3:]))
		}
	}
}

// compare fails the test if a process holds more at rest than before.
func compare(t *testing.T, before, after map[string]*series) {
	for _, name := range slices.Sorted(maps.Keys(after)) {
		was := before[name].measures()
		for i, m := range after[name].measures() {
			then, now := median(was[i].values), median(m.values)
			t.Logf("%-8s %-12s at rest %8.1f before, %8.1f after", name, m.what, then, now)
			if m.slack > 0 && now > then+m.slack {
				t.Errorf("%s holds more %s than before: %.1f, it was %.1f", name, m.what, now, then)
			}
		}
	}
}

// measure is a series with its permitted growth, for bounded caches and noise.
type measure struct {
	what   string
	values []float64
	slack  float64 // 0 for no limit
}

// measures returns the series. A store keeps up to eight reader connections with three files each.
func (l *series) measures() []measure {
	return []measure{{"heap MiB", l.heap, 8}, {"resident MiB", l.resident, 0}, {"goroutines", l.goroutines, 20}, {"descriptors", l.descriptors, 24}}
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// slope returns the slope of the least-squares line.
func slope(x, y []float64) float64 {
	var mx, my, xy, xx float64
	for i := range x {
		mx, my = mx+x[i]/float64(len(x)), my+y[i]/float64(len(y))
	}
	for i := range x {
		xy, xx = xy+(x[i]-mx)*(y[i]-my), xx+(x[i]-mx)*(x[i]-mx)
	}
	if xx == 0 {
		return 0
	}
	return xy / xx
}

func TestSlopeIsThatOfALine(t *testing.T) {
	if got := slope([]float64{0, 1, 2, 3}, []float64{5, 7, 9, 11}); got != 2 {
		t.Errorf("slope %v, want 2", got)
	}
}

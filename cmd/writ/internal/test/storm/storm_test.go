package storm

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"writ"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/test/testcluster"
	"writ/identity"
	"writ/internal/test/testenv"
	"writ/supervisor/journal"
)

// Flags for manual runs. In the gate the storm is short and has all fault modes that need no additional servers.
var (
	seedFlag    = flag.Uint64("seed", 0, "seed of random choices; if 0, a fixed one, or a new one in the long form")
	killsFlag   = flag.Int("kills", 2000, "number of kills")
	runsFlag    = flag.Int("runs", 1000, "number of runs, of ten calls each")
	variantFlag = flag.String("variant", "plain,flushall,snapshot,standby", "list of faults in addition to SIGKILL")
)

const (
	gateKills = 110 // two minutes
	gateRuns  = 100
	// Time between two kills.
	shortest, longest = 200 * time.Millisecond, 2 * time.Second
	// inFlight is the number of concurrent runs.
	inFlight = 40
	// promised is the time after the last kill within which all runs must end.
	promised = 60 * time.Second
	// patience limits the wait for runs that do not end.
	patience = 5 * time.Minute
)

func TestMain(m *testing.M) {
	code := m.Run()
	_ = testcluster.RemoveBinaries() // on failure, files remain in the system's temporary directory
	os.Exit(code)
}

// variant selects the faults of a storm.
type variant struct {
	flushall bool // sometimes delete all data in Redis
	snapshot bool // sometimes restart Redis with earlier data
	standby  bool // two supervisors share a journal on PostgreSQL; they are also stopped and continued
}

var variants = map[string]variant{
	"plain":    {},
	"flushall": {flushall: true},
	"snapshot": {snapshot: true},
	"standby":  {standby: true},
}

// TestStorm kills processes at random while runs are in progress. Every accepted submission has its run, every run ends
// in a permitted state with a summary that the client verifies, and each effect occurs once.
//
// Promise: Failures: Any number of kills loses no accepted run and doubles no effect, and every run ends within a
// minute after the last kill.
// How: The other mechanisms of this section, together; summaries verify; journal, ledger, lists and dashboard agree.
func TestStorm(t *testing.T) {
	testenv.Nightly(t, "TestKilledProcessesFinishTheRun of cmd/writ kills each process once")
	if !testenv.IsLong() {
		newStorm(t, variant{flushall: true, snapshot: true}, gateKills, gateRuns).rage()
		return
	}
	for name := range strings.SplitSeq(*variantFlag, ",") {
		v, ok := variants[name]
		if !ok {
			t.Fatalf("unknown variant %q; want one of %s", name, strings.Join(slices.Sorted(maps.Keys(variants)), ", "))
		}
		t.Run(name, func(t *testing.T) {
			newStorm(t, v, *killsFlag, *runsFlag).rage()
		})
	}
}

// storm is a storm in progress.
type storm struct {
	t       *testing.T
	cluster *testcluster.Cluster
	broker  *testenv.RedisServer
	journal string // of the supervisor
	nodes   []string
	variant variant
	kills   int
	seed    uint64
	luck    *rand.Rand
	begun   time.Time

	person     *client.Person
	roster     *identity.Roster
	datacenter writ.DatacenterID

	work     []*errand
	turns    chan struct{} // one token per permitted submission
	handedIn chan struct{} // closed when all runs are submitted
	all      sync.WaitGroup
	ctx      context.Context // of goroutines that wait for runs
	stop     context.CancelFunc

	victims  []*victim
	redis    *victim
	struck   map[string]int // by kind of fault
	lastKill time.Time
	records  *journal.Journal // opened after the storm
}

const datacenter = "dc1"

// newStorm starts the processes.
func newStorm(t *testing.T, v variant, kills, runs int) *storm {
	t.Helper()
	s := &storm{
		t: t, variant: v, kills: kills, seed: testenv.Seed(t, *seedFlag), turns: make(chan struct{}, runs), handedIn: make(chan struct{}), struck: map[string]int{},
	}
	s.luck = rand.New(rand.NewPCG(s.seed, 0))
	dir, err := os.MkdirTemp("", "writ-storm-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d; the files of the processes are in %s", s.seed, dir)
		} else if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	s.begin(dir)
	if s.roster, err = s.cluster.Client.Roster.Newest(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.person, err = s.cluster.Client.Person(t.Context(), s.roster); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.person.Close() })
	s.datacenter = s.roster.Datacenters[0].ID
	for i := range runs {
		s.work = append(s.work, newErrand(s.seed, i))
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	t.Cleanup(s.stop)
	return s
}

// begin starts all processes in a directory.
func (s *storm) begin(dir string) {
	s.t.Helper()
	s.broker = testenv.RedisWithPassword(s.t)
	d := testcluster.Datacenter{Name: datacenter, Redis: s.broker.URL, Nodes: 3, Speed: "1",
		Node: []string{"--cpus", "100000", "--memory-mib", "10000000", "--disk-gib", "1000000", "--slots", "8"}}
	if !s.variant.standby {
		s.journal = filepath.Join(dir, datacenter, "journal.db")
		s.cluster = testcluster.NewIn(s.t, dir)
		s.cluster.Add(d)
	} else {
		s.journal = testenv.Postgres(s.t).Store()
		s.cluster = testcluster.NewIn(s.t, dir, "WRIT_JOURNAL="+s.journal)
		d.Listen = fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(s.t))
		other := fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(s.t))
		d.NodeURL = oneNodeAPI(s.t, d.Listen, other)
		s.cluster.Add(d)
		second := filepath.Join(dir, standby)
		if err := os.CopyFS(second, os.DirFS(filepath.Join(dir, datacenter))); err != nil { // key and rosters
			s.t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(second, "supervisor.key"), 0o600); err != nil {
			s.t.Fatal(err)
		}
		s.cluster.Start(standby, "stands by", "supervisor", "--data", standby, "--dc", datacenter, "--coordinator", s.cluster.URL, "--redis", s.broker.URL,
			"--listen", other)
	}
	for i := range d.Nodes {
		s.nodes = append(s.nodes, fmt.Sprintf("%s-n%d", datacenter, i+1))
	}
}

// rage runs the storm until the number of kills is reached and all runs are submitted, and then checks the results.
func (s *storm) rage() {
	s.begun = time.Now()
	s.t.Logf("seed %d, in %s", s.seed, s.cluster.Dir)
	s.all.Go(s.handIn)
	s.blow()
	s.tell()
	found := &findings{stuck: s.calm(), runs: map[writ.RunState]int{}}
	if found.stuck == 0 {
		s.check(found)
	}
	s.t.Logf("storm: seed %d; %s in %s; %s", s.seed, countsText(s.struck), time.Since(s.begun).Round(time.Second), found)
	if found.last > promised {
		s.t.Errorf("the last run ended %s after the last kill, %s are promised", found.last, promised)
	}
}

// calm waits until all runs have ended and returns the number of runs that have not.
func (s *storm) calm() (stuck int) {
	done := make(chan struct{})
	go func() {
		s.all.Wait()
		close(done)
	}()
	late := time.NewTimer(patience)
	defer late.Stop()
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	for {
		select {
		case <-done:
			for _, e := range s.work {
				if e.err != nil {
					s.t.Errorf("%s: %v", e, e.err)
				}
			}
			return stuck
		case <-tick.C:
			s.tell()
		case <-late.C:
			for _, e := range s.work {
				if e.ended.Load() {
					continue
				}
				stuck++
				why, said := "", ""
				if e.accepted.Load() {
					why, said, _ = s.cluster.Try("run", "explain", string(e.id))
				}
				s.t.Errorf("%s has not ended %s after the last kill\n%s%s", e, patience, why, said)
			}
			s.stop()
			<-done
			return stuck
		}
	}
}

// tellEvery is the interval of progress logs.
const tellEvery = 10 * time.Second

// tell logs the progress.
func (s *storm) tell() {
	ended, accepted := 0, 0
	for _, e := range s.work {
		if e.ended.Load() {
			ended++
		}
		if e.accepted.Load() {
			accepted++
		}
	}
	s.t.Logf("%s: %s; %d of %d runs handed in, %d ended", time.Since(s.begun).Round(time.Second), countsText(s.struck), accepted, len(s.work), ended)
}

// countsText formats counts by name.
func countsText(counts map[string]int) string {
	total := 0
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		total += counts[name]
		parts = append(parts, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return fmt.Sprintf("%d kills (%s)", total, strings.Join(parts, ", "))
}

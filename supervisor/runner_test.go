package supervisor_test

import (
	"cmp"
	"context"
	"path/filepath"
	"testing"
	"time"

	"writ"
	"writ/internal/opening"
	"writ/internal/test/metricspage"
	"writ/runner"
	"writ/runner/hardware"
	runnerjournal "writ/runner/journal"
	"writ/runner/member"
	"writ/runner/queue"
	"writ/sal"
	"writ/sal/host"
	"writ/sal/simulated"
)

// realNode is a node with a real runner and simulated drivers. Its directory outlives the runner.
type realNode struct {
	sim     *sim
	dir     string
	name    string
	token   string
	way     queue.Queue              // queue of the runner; nil is the sim's queue
	drivers []sal.Driver             // nil means simulated drivers
	clock   *clock                   // nil means the clock of the sim
	open    opening.List             // ports that simulated drivers open
	devices []string                 // devices that simulated drivers offer; any if empty
	about   func(d *writ.NodeDriver) // changes the descriptions of simulated drivers; nil keeps them
	runner  *runner.Runner
	stop    context.CancelFunc
	ended   chan error
}

// describedAs is a simulated driver with another description.
type describedAs struct {
	*simulated.Driver
	change func(d *writ.NodeDriver)
}

func (d describedAs) Describe() writ.NodeDriver {
	about := d.Driver.Describe()
	d.change(&about)
	return about
}

// realNode starts a node with a real runner, which serves until the test ends.
func (s *sim) realNode(name string, change ...func(n *realNode)) *realNode {
	n := &realNode{sim: s, dir: s.t.TempDir(), name: name, token: s.token().String()}
	for _, c := range change {
		c(n)
	}
	n.start()
	s.t.Cleanup(n.halt)
	return n
}

// counted returns the sum of a counter of the runner: jobs, refusals or dropped.
func (n *realNode) counted(what string) float64 {
	n.sim.t.Helper()
	return metricspage.Read(n.sim.t, n.runner.Metrics).Sum("writ_runner_" + what + "_total")
}

func (n *realNode) start() {
	t := n.sim.t
	t.Helper()
	drivers := n.drivers
	about := func() []writ.NodeDriver { return nil }
	for _, module := range simulated.Modules {
		if n.drivers != nil {
			break
		}
		d, err := simulated.Open(simulated.Config{Module: module, Dir: filepath.Join(n.dir, "sim"), Speed: 1, Open: n.open, Devices: n.devices})
		if err != nil {
			t.Fatal(err)
		}
		if n.about == nil {
			drivers = append(drivers, d)
			continue
		}
		drivers = append(drivers, describedAs{d, n.about})
	}
	if n.drivers == nil {
		drivers = append(drivers, &host.Driver{Dir: n.dir, Drivers: about})
	}
	journal, err := runnerjournal.Open(t.Context(), filepath.Join(n.dir, "runner.db"))
	if err != nil {
		t.Fatal(err)
	}
	joined, err := member.Join(t.Context(), member.Joining{Dir: n.dir, API: &n.sim.api, Token: n.token, Name: n.name})
	if err != nil {
		t.Fatal(err)
	}
	n.runner = &runner.Runner{
		Member: joined, API: &n.sim.api, Queue: cmp.Or[queue.Queue](n.way, n.sim.queue), Journal: journal, Drivers: drivers, Grace: time.Nanosecond,
		Capacity: writ.Capacity{CPUs: 16, MemoryMiB: 65536, DiskGiB: 1000}, Now: cmp.Or(n.clock, n.sim.clock).now,
		Host: func() writ.Host { // without the boot time, because simulated time differs from it
			h := hardware.Here().Host()
			h.Booted = time.Time{}
			return h
		},
	}
	ctx, stop := context.WithCancel(t.Context())
	n.stop, n.ended = stop, make(chan error, 1)
	r := n.runner
	go func() {
		err := r.Run(ctx)
		journal.Close()
		n.ended <- err
	}()
}

// id returns the node's id.
func (n *realNode) id() writ.NodeID { return n.runner.Member.Node() }

// halt stops the runner, whatever it is doing. start continues with the state on disk.
func (n *realNode) halt() {
	if n.stop == nil {
		return
	}
	n.stop()
	if err := <-n.ended; err != nil {
		n.sim.t.Errorf("the runner ended with %v", err)
	}
	n.stop = nil
}

// wantEffectsOnce fails the test unless exactly want jobs took effect, each once.
func (n *realNode) wantEffectsOnce(want int) {
	t := n.sim.t
	t.Helper()
	effects, err := simulated.ReadEffects(filepath.Join(n.dir, "sim"))
	if err != nil {
		t.Fatal(err)
	}
	times := make(map[string]int)
	for _, e := range effects {
		times[e.Key]++
	}
	for key, n := range times {
		if n != 1 {
			t.Errorf("%s took effect %d times, want 1", key, n)
		}
	}
	if len(times) != want {
		t.Errorf("%d jobs took effect, want %d", len(times), want)
	}
}

const wholeScript = `
image := import("image")
volume := import("volume")
machine := import("machine")
herodb := import("herodb")
node := import("node")
run := import("run")
debian := image.fetch("debian-12", {url: "https://images.example/debian-12.raw", sha256: "` +
	`0000000000000000000000000000000000000000000000000000000000000000` + `", format: "raw"})
db := herodb.create("store", {memory_mib: 512, persist: true})
root := volume.create("web-0", {size_gib: 10, image: debian})
vm := machine.create("web-0", {cpus: 2, memory_mib: 512, disks: [root], env: {DB: db.address}})
node.ping()
run.output({address: db.address, simulated: vm.simulated})
`

func TestRealRunnerExecutesScript(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.realNode("n1")
		run, calls := s.wantState(s.submit(wholeScript), writ.RunSucceeded)
		if len(calls) != 5 || run.Output["address"] == "" || run.Output["simulated"] != true {
			t.Errorf("got %d calls, output %v", len(calls), run.Output)
		}
		n.wantEffectsOnce(4)

		// A repeated run changes nothing.
		_, calls = s.wantState(s.submit(wholeScript), writ.RunSucceeded)
		for _, c := range calls[:4] {
			if c.Change != writ.ChangeUnchanged || !c.Simulated {
				t.Errorf("%s %s: change %q by driver %s", c.Operation, c.Name, c.Change, c.Driver)
			}
		}
		n.wantEffectsOnce(4)
	})
}

func TestKillsLoseNoEffectsOfRun(t *testing.T) {
	for _, tt := range []struct {
		name string
		kill func(s *sim, n *realNode)
	}{
		{"Runner", func(s *sim, n *realNode) { n.halt(); time.Sleep(3 * time.Second); n.start() }},
		{"Supervisor", func(s *sim, n *realNode) { s.halt(); time.Sleep(3 * time.Second); s.start() }},
		{"Queue", func(s *sim, n *realNode) { s.queue.Flush() }},
		{"QueueAway", func(s *sim, n *realNode) { s.queue.Cut(true); time.Sleep(90 * time.Second); s.queue.Cut(false) }},
		{"All", func(s *sim, n *realNode) {
			n.halt()
			s.halt()
			s.queue.Flush()
			time.Sleep(time.Minute)
			s.start()
			n.start()
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inSim(t, func(t *testing.T, s *sim) {
				n := s.realNode("n1")
				id := s.submit(wholeScript)
				for seq := 1; seq <= 4; seq++ {
					s.awaitCall(id, seq, writ.CallQueued)
					time.Sleep(100 * time.Millisecond) // in the middle of the work
					tt.kill(s, n)
				}
				s.wantState(id, writ.RunSucceeded)
				n.wantEffectsOnce(4)
			})
		})
	}
}

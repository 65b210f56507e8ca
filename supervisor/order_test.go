package supervisor_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/internal/test/testenv"
)

func TestUnplaceableCallFailsItsDependents(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1")
		s.join("n2")
		time.Sleep(2 * time.Second)
		s.wantState(s.submit(`
volume := import("volume")
volume.create("a", {size_gib: 1}, {node: "n1"})
volume.create("b", {size_gib: 1}, {node: "n2"})
`), writ.RunSucceeded)
		began := time.Now()
		run, calls := s.wantState(s.submit(`
volume := import("volume")
machine := import("machine")
m := machine.create("m", {cpus: 1, memory_mib: 512, disks: [volume.get("a"), volume.get("b")]})
machine.start(m)
`), writ.RunFailed)
		if run.Failure.Code != writ.CodeResourceConflict || calls[3].Error.Code != writ.CodeDependencyFailed {
			t.Errorf("failure = %+v, error of call 4 = %+v", run.Failure, calls[3].Error)
		}
		if took := time.Since(began); took > time.Minute {
			t.Errorf("the run took %s", took)
		}
	})
}

func TestResourceCallsFollowScriptOrder(t *testing.T) {
	const image = `i := image.fetch("i", {url: "https://images.example/i.tar", sha256: "0000000000000000000000000000000000000000000000000000000000000000", format: "oci"}); `
	for _, tt := range []struct{ name, script, want string }{
		{"GetAfterCreate", `a := volume.create("v", {size_gib: 1}); b := volume.get("v"); run.output({same: a.uid == b.uid})`, "map[same:true]"},
		{"GetAfterDelete", `volume.create("v", {size_gib: 1}); volume.delete("v"); e := volume.get("v").err; run.output({code: e.code})`, "map[code:RESOURCE_UNKNOWN]"},
		{"CreateAfterDelete", `a := volume.create("v", {size_gib: 900}); volume.delete("v"); b := volume.create("v", {size_gib: 900}); run.output({same: a.uid == b.uid})`, "map[same:false]"},
		{"DeleteTwice", `volume.create("v", {size_gib: 1}); volume.delete("v"); e := volume.delete("v").err; run.output({failed: !!e})`, "map[failed:false]"},
		{"Grow", `volume.create("v", {size_gib: 300}); volume.create("v", {size_gib: 600}); e := volume.resize("v", {size_gib: 900}).err; run.output({failed: !!e})`, "map[failed:false]"},
		{"GrowAfterResult", `volume.create("v", {size_gib: 600}).uid; e := volume.resize("v", {size_gib: 1000}).err; run.output({failed: !!e})`, "map[failed:false]"},
		{"FillAfterResult", `volume.create("v", {size_gib: 600}).uid; e := volume.create("w", {size_gib: 400}).err; run.output({failed: !!e})`, "map[failed:false]"},
		{"RunAfterRun", image + `a := container.run("p", {image: i, memory_mib: 40000}).err; b := container.run("q", {image: i, memory_mib: 40000}).err; run.output({failed: !!a, then: !!b})`, "map[failed:false then:false]"},
		{"RunTwice", image + `a := container.run("p", {image: i, memory_mib: 16}); b := container.run("p", {image: i, memory_mib: 16}); c := container.run("p", {image: i, memory_mib: 16}); run.output({failed: !!c.err})`, "map[failed:false]"},
		{"RunTwiceCrosswise", image + strings.ReplaceAll(image, `i := image.fetch("i"`, `j := image.fetch("j"`) + `container.run("p", {image: i, memory_mib: 16}); container.run("q", {image: j, memory_mib: 16}); container.run("q", {image: i, memory_mib: 16}); e := container.run("p", {image: j, memory_mib: 16}).err; run.output({failed: !!e})`, "map[failed:false]"},
		{"CreateAfterDeleteBesideAnImage", image + `a := container.create("c", {image: i, memory_mib: 16}); container.delete("c"); b := container.create("c", {image: i, memory_mib: 16}); e := container.start(b).err; run.output({same: a.uid == b.uid, failed: !!e})`, "map[failed:false same:false]"},
		{"GrowTooMuch", `volume.create("v", {size_gib: 300}).uid; e := volume.resize("v", {size_gib: 1001}).err; run.output({code: e.code})`, "map[code:NO_CAPACITY]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inSim(t, func(t *testing.T, s *sim) {
				s.join("n1", slowly(time.Second)) // the node has 1000 GiB
				time.Sleep(2 * time.Second)
				script := serviceModules + strings.ReplaceAll(tt.script, "; ", "\n") + "\n"
				run, calls := s.wantState(s.submit(script), writ.RunSucceeded)
				if got := fmt.Sprint(run.Output); got != tt.want {
					t.Errorf("output = %s, want %s", got, tt.want)
					for _, c := range calls {
						t.Logf("%s %s: %s %v %s", c.Operation, c.Name, c.State, c.Error, c.Why.String())
					}
				}
			})
		})
	}
}

// slowThings delays jobs on resources by d, and other jobs by a seventh of d.
func slowThings(d time.Duration) func(n *testNode) {
	return func(n *testNode) {
		n.act = func(ctx context.Context, job writ.Job) writ.Result {
			if job.Name != "" {
				time.Sleep(d)
			} else {
				time.Sleep(d / 7)
			}
			return succeed(ctx, job)
		}
	}
}

func TestRunsWithSharedResourcesDoNotBlock(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1", slowThings(700*time.Millisecond))
		time.Sleep(2 * time.Second)
		began := time.Now()
		const restless = `
volume := import("volume")
machine := import("machine")
node := import("node")
root := volume.create("web-0", {size_gib: 10})
machine.create("web-0", {cpus: 2, memory_mib: 512, disks: [root]})
for i := 0; i < 8; i++ { node.ping().err }
`
		// The first run claims both resources. The third run checks more often than the second until the volume is free,
		// but the second one is next in order.
		ids := []writ.RunID{s.submit(webScript), s.submit(webScript), s.submit(restless)}
		for _, id := range ids {
			s.wantState(id, writ.RunSucceeded)
		}
		if took := time.Since(began); took > 2*time.Minute {
			t.Errorf("the runs took %s", took)
		}
	})
}

func TestReservationIsCountedOnce(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1", slowThings(5*time.Second)) // the node has 1000 GiB
		time.Sleep(2 * time.Second)
		s.wantState(s.submit(`
image := import("image")
volume := import("volume")
machine := import("machine")
node := import("node")
i := image.fetch("i", {url: "https://images.example/i.raw", sha256: "`+strings.Repeat("0", 64)+`", format: "raw"})
v := volume.create("v", {size_gib: 600, image: i})
node.ping().err
machine.create("m", {cpus: 1, memory_mib: 512, disks: [v]})
`), writ.RunSucceeded)
	})
}

func TestFaultyNodeGetsNoWork(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1")
		s.wantState(s.submit(oneVolume), writ.RunSucceeded)
		n.mu.Lock()
		n.fault = "disk full"
		n.mu.Unlock()
		time.Sleep(2 * time.Second)
		id := s.submit("volume := import(\"volume\")\nvolume.resize(\"v\", {size_gib: 2})\n") // the volume is on this node
		time.Sleep(10 * time.Second)
		if _, calls := s.look(id); calls[0].State != writ.CallPlanned || !strings.Contains(calls[0].Why.String(), "disk full") {
			t.Errorf("call is %s: %q", calls[0].State, calls[0].Why.String())
		}
		n.mu.Lock()
		n.fault = ""
		n.mu.Unlock()
		s.wantState(id, writ.RunSucceeded)
	})
}

// A host that lost /dev/kvm keeps its machines, and still runs those operations on them that need no KVM.
func TestDegradedNodeGetsNoNewWork(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1")
		const modules = "volume := import(\"volume\")\nmachine := import(\"machine\")\n"
		s.wantState(s.submit(modules+`
v := volume.create("v", {size_gib: 1})
machine.create("m", {cpus: 1, memory_mib: 512, disks: [v]})
`), writ.RunSucceeded)
		n.mu.Lock()
		n.lacks = map[string]string{"machine": "KVM: open /dev/kvm: no such file or directory"}
		n.mu.Unlock()
		time.Sleep(2 * time.Second)
		_, calls := s.wantState(s.submit(modules+`
w := volume.create("w", {size_gib: 1})
machine.create("new", {cpus: 1, memory_mib: 512, disks: [w]})
`), writ.RunFailed)
		if err := calls[1].Error; err == nil || err.Code != writ.CodeNoCapacity || !testenv.Mentions(err.Message, "machine", "KVM") {
			t.Errorf("create a machine: %v, want NO_CAPACITY", err)
		}
		s.wantState(s.submit(modules+`
w := volume.create("w", {size_gib: 1}) // is new, and goes where the machine is
m := machine.get("m")
machine.attach(m, {volume: w})
machine.stop(m)
`), writ.RunSucceeded)
		s.wantState(s.submit(modules+"machine.delete(\"m\")\n"), writ.RunSucceeded)
	})
}

// Two runs waiting for the same resource on a silent node once woke each other in a loop, with thousands of steps and
// events a second. In virtual time such a test does not end.
func TestRunsWaitQuietlyForSilentNode(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1")
		time.Sleep(2 * time.Second)
		s.wantState(s.submit("volume := import(\"volume\")\nvolume.create(\"v\", {size_gib: 1})\n"), writ.RunSucceeded)
		n.setSilent(true)
		s.halt()
		s.start() // does not know the state of the node's resources yet
		var runs []writ.RunID
		for size := 2; size <= 4; size++ {
			runs = append(runs, s.submit(fmt.Sprintf("volume := import(\"volume\")\nvolume.resize(\"v\", {size_gib: %d})\n", size)))
		}
		time.Sleep(20 * time.Second)
		if events := len(s.eventsOf("call")); events > 20 {
			t.Errorf("%d events about idle calls, want at most 20", events)
		}
		n.setSilent(false)
		for _, id := range runs {
			s.await(id)
		}
	})
}

// A reader that follows a log has a call open on the container nearly all the time. Changes of the container do not
// wait for it, and a reader does not wait for other calls.
func TestLogReaderBlocksNoOtherCall(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.realNode("n1")
		time.Sleep(2 * time.Second)
		const name = "slow-20-c" // every operation except reading takes 20 s
		run := func(body string) writ.RunID {
			return s.submit("image := import(\"image\")\ncontainer := import(\"container\")\nrun := import(\"run\")\n" + strings.ReplaceAll(body, "NAME", name))
		}
		s.wantState(run(`container.create("NAME", {image: image.fetch("i", {url: "https://images.example/i.tar", sha256: "`+strings.Repeat("0", 64)+`", format: "oci"})})`), writ.RunSucceeded)
		openSecrets := run(`
first := container.logs("NAME")
then := container.logs("NAME", {after: first.next, wait_seconds: 60})
run.output({text: then.text, state: then.state, lost: then.lost})
`)
		s.awaitCall(openSecrets, 2, writ.CallRunning)
		began := time.Now()
		stops := run(`container.stop("NAME")`)
		s.awaitCall(stops, 1, writ.CallRunning)
		aside := run(`container.logs("NAME", {lines: 1})`)
		s.awaitCall(aside, 1, writ.CallQueued)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("the stop and a second read began after %s, want at most 5 s", took)
		}
		s.wantState(stops, writ.RunSucceeded)
		ended, _ := s.wantState(openSecrets, writ.RunSucceeded)
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("the waiting reader got its lines after %s, want at most 30 s", took)
		}
		want := map[string]any{"text": "simulated: container " + name + " stopped\n", "state": "stopped", "lost": false}
		if diff := cmp.Diff(want, ended.Output); diff != "" {
			t.Error(diff)
		}
		s.wantState(aside, writ.RunSucceeded)
	})
}

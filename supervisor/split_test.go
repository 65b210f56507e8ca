package supervisor_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/internal/test/testenv"
)

const serviceModules = `container := import("container")
herodb := import("herodb")
image := import("image")
machine := import("machine")
network := import("network")
run := import("run")
volume := import("volume")
`

// natural is a typical service: the container gets the address of its database.
const natural = serviceModules + `net := network.create("shop")
data := volume.create("data", {size_gib: 1})
db := herodb.create("db", {memory_mib: 64, network: net})
app := image.fetch("app", {url: "https://example.org/app.tar", sha256: "0000000000000000000000000000000000000000000000000000000000000000", format: "oci"})
container.create("web", {image: app, memory_mib: 64, networks: [net], volumes: [{volume: data, path: "/data"}], env: {HOST: db.host}})
`

// Promise: Plans, scripts and manuals: A script succeeds on several nodes if it succeeds on one, in any order of calls
// and reads, unless a node is full.
// How: A volume, image or network gets its node with the first call that uses it; if the script reads it earlier, near
// the other resources of the run. If a node is full, the error names the line of the read.
// Also: TestReadSplittingGroupIsNamed, TestCallHasThePositionOfTheLastRead, TestScripts/test,
// TestEveryWaitAndFailureHasItsSentence.
func TestReadsDoNotSplitResources(t *testing.T) {
	scripts := map[string]string{
		"natural": natural,
		"reads in a loop": serviceModules + `disks := []
for i := 0; i < 3; i++ {
	disk := volume.create("data-" + i, {size_gib: 10})
	run.log(disk.uid)
	disks = append(disks, disk)
}
machine.create("db", {cpus: 1, memory_mib: 64, disks: disks})
`,
		"a single read": serviceModules + `a := volume.create("a", {size_gib: 1})
b := volume.create("b", {size_gib: 1})
run.log(b.uid)
machine.create("db", {cpus: 1, memory_mib: 64, disks: [a, b]})
`,
	}
	random := 30
	if testenv.IsNightly() {
		random = 500
	}
	for i := range random {
		seed := rand.Uint64()
		scripts[fmt.Sprintf("random %d, seed %d", i, seed)] = randomService(rand.New(rand.NewPCG(seed, 0)))
	}
	for name, script := range scripts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for nodes := 1; nodes <= 3; nodes++ {
				inSim(t, func(t *testing.T, s *sim) {
					for i := range nodes {
						s.join(fmt.Sprintf("n%d", i), slowly(time.Second))
					}
					time.Sleep(2 * time.Second) // until all nodes are ready
					preview := s.preview(s.payload(script))
					if run, calls := s.await(s.submit(script)); run.State != writ.RunSucceeded {
						t.Errorf("on %d nodes, run is %s: %+v\n%+v\n%s", nodes, run.State, run.Failure, calls, script)
					}
					for _, c := range preview.Calls {
						if c.Error != nil {
							t.Errorf("on %d nodes, the preview refuses call %d: %v\n%s", nodes, c.Seq, c.Error, script)
						}
					}
				})
			}
		})
	}
}

// randomService returns a script with calls and reads in a random order. It has one network, because members of two
// networks must be on one node. Each volume has one user.
func randomService(r *rand.Rand) string {
	var b strings.Builder
	b.WriteString(serviceModules)
	var readable, free, images []string
	network := false
	if r.IntN(2) == 0 {
		b.WriteString("net := network.create(\"net\")\n")
		readable, network = append(readable, "net.uid"), true
	}
	networks := func() string {
		if network && r.IntN(2) == 0 {
			return ", networks: [net]"
		}
		return ""
	}
	take := func() (all []string) {
		for len(free) > 0 && r.IntN(3) > 0 {
			all, free = append(all, free[0]), free[1:]
		}
		return all
	}
	for i := range 3 + r.IntN(8) {
		v := fmt.Sprintf("v%d", i)
		switch r.IntN(6) {
		case 0, 1:
			fmt.Fprintf(&b, "%s := volume.create(%q, {size_gib: 1})\n", v, v)
			free = append(free, v)
		case 2:
			fmt.Fprintf(&b, "%s := image.fetch(%q, {url: \"https://example.org/%s\", sha256: %q, format: \"oci\"})\n", v, v, v, strings.Repeat("0", 64))
			images = append(images, v)
		case 3:
			fmt.Fprintf(&b, "%s := machine.create(%q, {cpus: 1, memory_mib: 64, disks: [%s]%s})\n", v, v, strings.Join(take(), ", "), networks())
		case 4:
			on := ""
			if network {
				on = ", network: net"
			}
			fmt.Fprintf(&b, "%s := herodb.create(%q, {memory_mib: 64%s})\n", v, v, on)
		case 5:
			if len(images) == 0 {
				continue
			}
			var mounts []string
			for _, volume := range take() {
				mounts = append(mounts, fmt.Sprintf("{volume: %s, path: \"/%s\"}", volume, volume))
			}
			fmt.Fprintf(&b, "%s := container.create(%q, {image: %s, memory_mib: 64, volumes: [%s]%s})\n", v, v,
				images[r.IntN(len(images))], strings.Join(mounts, ", "), networks())
		}
		readable = append(readable, v+".uid")
		for r.IntN(3) == 0 {
			fmt.Fprintf(&b, "run.log(%s)\n", readable[r.IntN(len(readable))])
		}
	}
	return b.String()
}

// A read can still split resources if a node is full. The error then names its line.
func TestReadSplittingGroupIsNamed(t *testing.T) {
	const script = serviceModules + `disks := []
for i := 0; i < 2; i++ {
	disk := volume.create("data-" + i, {size_gib: 600})
	run.log(disk.uid)
	disks = append(disks, disk)
}
machine.create("db", {cpus: 1, memory_mib: 64, disks: disks})
`
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1", slowly(time.Second)) // separates the passes in virtual time
		s.join("n2", slowly(time.Second))
		time.Sleep(2 * time.Second) // until both nodes are ready
		run, _ := s.wantState(s.submit(script), writ.RunFailed)
		if f := run.Failure; f.Code != writ.CodeResourceConflict || !strings.Contains(f.Hint, ".tengo:11:") {
			t.Errorf("failure = %+v, want the line of the read in its hint", f)
		}
	})
}

// The read is a cause only if another node would have had room for the call.
func TestReadIsBlamedOnlyIfAnotherNodeFits(t *testing.T) {
	const script = serviceModules + `disk := volume.create("data", {size_gib: 600})
run.log(disk.uid)
machine.create("db", {cpus: 16, memory_mib: 60000, disks: [disk]})
`
	for _, tt := range []struct {
		name   string
		second int64 // memory of the second node, 0 without one
		hint   string
	}{
		{"OneNode", 0, "delete unused resources there"},
		{"SmallSecondNode", 32768, "delete unused resources there"},
		{"LargeSecondNode", 65536, "reads a result at"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inSim(t, func(t *testing.T, s *sim) {
				s.join("n1", slowly(time.Second)) // separates the passes in virtual time
				time.Sleep(2 * time.Second)       // until the node is ready
				const other = serviceModules + `machine.create("other", {cpus: 1, memory_mib: 8192})` + "\n"
				s.wantState(s.submit(other), writ.RunSucceeded)
				// the second node has no room for the disk
				if tt.second > 0 {
					s.join("n2", func(n *testNode) {
						n.capacity = writ.Capacity{CPUs: 16, MemoryMiB: tt.second, DiskGiB: 500}
					})
					time.Sleep(2 * time.Second)
				}
				run, _ := s.wantState(s.submit(script), writ.RunFailed)
				if f := run.Failure; f.Code != writ.CodeNoCapacity || !strings.Contains(f.Hint, tt.hint) {
					t.Errorf("failure = %+v, want the hint %q", f, tt.hint)
				}
			})
		})
	}
}

// A database does not bind other resources to its node, but all calls on the database run there.
func TestCallsOnOneDatabaseShareItsNode(t *testing.T) {
	const script = serviceModules + `machine.create("m", {cpus: 1, memory_mib: 64})
db := herodb.create("db", {memory_mib: 4096})
herodb.backup(db, {backup: "first"})
`
	inSim(t, func(t *testing.T, s *sim) {
		s.realNode("n1")
		s.realNode("n2")
		time.Sleep(2 * time.Second) // until both nodes are ready
		if run, calls := s.await(s.submit(script)); run.State != writ.RunSucceeded || calls[1].Node != calls[2].Node {
			t.Errorf("run is %s: %+v, calls %+v", run.State, run.Failure, calls)
		}
	})
}

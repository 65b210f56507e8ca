package dashboard_test

import (
	"fmt"
	"strings"
	"time"

	"writ"
	"writ/coord/api"
	"writ/ledger"
)

// moments holds the times of a call: seconds after the acceptance of its run, -1 for not yet.
type moments struct{ planned, queued, started, ended float64 }

func call(operation, name, node, driver string, state writ.CallState, accepted time.Time, m moments) writ.Call {
	at := func(s float64) time.Time {
		if s < 0 {
			return time.Time{}
		}
		return accepted.Add(time.Duration(s * float64(time.Second)))
	}
	c := writ.Call{
		Operation: operation, Name: name, NodeName: node, Node: writ.NodeID(node), Driver: driver, Simulated: driver == "simulated", State: state,
		Attempt: 1, Planned: at(m.planned), Queued: at(m.queued), Started: at(m.started), Ended: at(m.ended),
	}
	if state.Sent() || state == writ.CallSucceeded {
		c.Delivery = 1
	}
	if state == writ.CallSucceeded {
		c.Change = writ.ChangeCreated
	}
	return c
}

// numbered is a script with numbered lines.
func numbered(name string, lines int) string {
	var b strings.Builder
	for n := range lines {
		fmt.Fprintf(&b, "%s_%d := volume.create(%q, {size_gib: %d})\n", name, n+1, fmt.Sprintf("%s-%d", name, n+1), n+1)
	}
	return b.String()
}

// failedRun stores a run that failed at its sixth call.
func failedRun(w *fixture, n int, received time.Time) writ.Run {
	run := w.submit(n, "shop.tengo", func(in *ledger.Incoming) {
		in.Received, in.Deployment, in.Signer = received, "shop", ci
		w.signs(in, numbered("shop", 58), map[string]any{"replicas": int64(3), "zone": "eu-west", "labels": []any{"gpu=h100", "tier=gold"}})
	})
	a := run.Accepted
	run.State, run.Started, run.Ended, run.Revision = writ.RunFailed, a, a.Add(9400*time.Millisecond), 13
	run.Decided = []writ.Decision{{Decision: "resume", Signer: "alice", Reason: "there is a new node", Time: a.Add(8 * time.Second)}}
	run.Failure = &writ.Failure{
		Error:    writ.Error{Code: writ.CodeNoCapacity, Message: "no open node has 64 CPUs, 256 GiB of memory and the label gpu=h100", Hint: "the most free capacity is on ams1-n2: 22 CPUs, 180 GiB"},
		Position: "shop.tengo:31:8", Trace: []string{"shop.tengo:52:3"}, Seq: 6,
	}
	calls := []writ.Call{
		call("image.fetch", "debian-12", "ams1-n1", "directory", writ.CallSucceeded, a, moments{0, .05, .09, 2.6}),
		call("network.create", "shop-net", "ams1-n1", "simulated", writ.CallSucceeded, a, moments{0, .06, .3, .9}),
		call("volume.create", "db-data", "ams1-n2", "btrfs", writ.CallSucceeded, a, moments{.1, .2, .8, 1.1}),
		call("machine.create", "db-0", "ams1-n2", "simulated", writ.CallSucceeded, a, moments{.1, 2.7, 3.4, 6.9}),
		call("herodb.create", "cache", "ams1-n1", "simulated", writ.CallSucceeded, a, moments{.1, 2.7, 4.8, 8.2}),
		call("machine.create", "gpu-0", "", "", writ.CallFailed, a, moments{.1, -1, -1, 9.3}),
	}
	calls[2].Delivery = 2
	calls[4].Attempt = 3
	for i := range calls {
		calls[i].Position = fmt.Sprintf("shop.tengo:%d:8", 9+4*i)
	}
	calls[5].Error = &run.Failure.Error
	w.run(run, calls...)
	return run
}

// runningRun stores an open run.
func runningRun(w *fixture, n int, received time.Time) writ.Run {
	run := w.submit(n, "web.tengo", func(in *ledger.Incoming) {
		in.Received, in.Deployment = received, "web"
		w.signs(in, numbered("web", 30), map[string]any{})
	})
	a := run.Accepted
	run.State, run.Started, run.Revision = writ.RunRunning, a, 4
	calls := []writ.Call{
		call("image.fetch", "caddy-2.8", "ams1-n1", "directory", writ.CallSucceeded, a, moments{0, .04, .07, 3.1}),
		call("volume.create", "site", "ams1-n3", "btrfs", writ.CallSucceeded, a, moments{0, .04, .2, .6}),
		call("container.create", "web-0", "ams1-n1", "simulated", writ.CallSucceeded, a, moments{.1, 3.2, 3.3, 7.7}),
		call("container.create", "web-1", "ams1-n3", "simulated", writ.CallRunning, a, moments{.1, 3.2, 4.6, -1}),
		call("container.create", "web-2", "ams1-n1", "simulated", writ.CallQueued, a, moments{.1, 7.8, -1, -1}),
		call("network.expose", "site", "", "", writ.CallPlanned, a, moments{.1, -1, -1, -1}),
	}
	for i := range calls {
		calls[i].Position = fmt.Sprintf("web.tengo:%d:6", 7+3*i)
	}
	calls[5].Reason = "needs call 4 and call 5"
	w.run(run, calls...)
	return run
}

// fill creates the ledger of a small datacenter after a few busy hours, and returns a failed and an open run.
func fill(w *fixture) (failed, running writ.Run) {
	w.t.Helper()
	now := time.Now()
	scripts := []string{"nightly.tengo", "web.tengo", "resize-db.tengo", "hello.tengo", "prune-images.tengo", "tenant-vpn.tengo"}
	signers := []string{"alice", ci, "bob", "ci-nightly"}
	for n := range 64 {
		age := time.Duration(64-n)*3*time.Minute + 2*time.Minute
		script := scripts[n%len(scripts)]
		run := w.submit(n, script, func(in *ledger.Incoming) {
			in.Received, in.Signer = now.Add(-age), signers[(n*7/3)%len(signers)]
			if n%3 == 0 {
				in.Project, in.ProjectName = bank, "ledger-bank"
			}
			if n%5 == 1 {
				in.Datacenter = gent
			}
			if script == "web.tengo" {
				in.Deployment = "web"
			}
		})
		run.State, run.Started, run.Ended = writ.RunSucceeded, run.Accepted, run.Accepted.Add(time.Duration(900+n*n*17%41000)*time.Millisecond)
		done := 2 + n%7
		var calls []writ.Call
		for range done {
			calls = append(calls, call("volume.create", "data", "ams1-n2", "btrfs", writ.CallSucceeded, run.Accepted, moments{0, .1, .2, .9}))
		}
		switch n {
		case 17, 52:
			run.State = writ.RunFailed
			run.Failure = &writ.Failure{Error: writ.Error{Code: writ.CodeNodeLost, Message: "the node gent2-n1 did not come back within 60 s"}, Position: script + ":14:6", Seq: done}
			calls[done-1].State = writ.CallFailed
		case 41:
			run.State = writ.RunCancelled
		case 23:
			run.State = writ.RunExpired
		}
		w.run(run, calls...)
	}
	refused := w.submit(70, "wipe.tengo", func(in *ledger.Incoming) { in.Received, in.Signer = now.Add(-100*time.Second), "bob" })
	w.ok(w.ledger.Reject(w.t.Context(), refused.Payload, writ.SubmissionRefused, writ.Errorf(writ.CodeDestructiveDenied, "the script may delete volumes and bob has no binding that allows it")))
	failed = failedRun(w, 71, now.Add(-75*time.Second))
	begun := now.Add(w.ahead)
	w.submit(72, "edge-cache.tengo", func(in *ledger.Incoming) {
		in.Received, in.Datacenter, in.Signer = begun.Add(-48*time.Second), fra, ci
	})
	accepted := w.submit(73, "tenant-vpn.tengo", func(in *ledger.Incoming) { in.Received, in.Signer = begun.Add(-9*time.Second), "bob" })
	running = runningRun(w, 74, begun.Add(-12*time.Second))
	w.run(accepted)
	w.nodes(now)
	w.depths(3)
	return failed, running
}

// everyPart fills a fixture so that all parts of all pages have content, and returns a failed and an open run.
func everyPart(w *fixture) (failed, running writ.Run) {
	w.t.Helper()
	failed, running = fill(w)
	w.remembers()
	stuckRuns(w)
	w.resources(running)
	w.past(5 * time.Second)
	w.depths(3)
	w.remember()
	w.onHold()
	w.keepsSecrets()
	w.used()
	w.starting()
	return failed, running
}

// keepsSecrets gives datacenters secrets of both projects.
func (w *fixture) keepsSecrets() {
	secret := func(project writ.ProjectID, name string, version int, by string) writ.Secret {
		return writ.Secret{Project: project, Name: name, Version: version, SetBy: by, Set: time.Now().Add(-time.Duration(10-version) * time.Hour)}
	}
	old := secret(shop, "db-password", 1, "alice")
	old.Removed = time.Now().Add(-time.Minute)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept = []api.DatacenterSecrets{
		{Datacenter: ams, Name: "ams1", Secrets: []writ.Secret{old, secret(shop, "db-password", 2, ci), secret(shop, "api-key", 1, "alice"), secret(bank, "canary-secret", 1, "eve")}},
		{Datacenter: gent, Name: "gent2", Secrets: []writ.Secret{}},
		{Datacenter: fra, Name: "fra1", Secrets: []writ.Secret{}, Error: writ.Errorf(writ.CodeDatacenterAway, "the datacenter fra1 is not connected")},
	}
}

// usedMonth is a month with resource usage of both projects.
var usedMonth = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

func (w *fixture) used() {
	use := func(project writ.ProjectID, name string, at time.Time) {
		w.store(ams, writ.Event{Usage: &writ.Usage{
			ResourceID: writ.ResourceID{Project: project, Kind: writ.KindMachine, Name: name}, UID: writ.UID(name), Node: "ams1-n1", Hour: at,
			Used: writ.Used{CPUSeconds: 7200, MemoryMiBSeconds: 3600 << 10, DiskGiBSeconds: 36000, Received: 1 << 30, Sent: 1 << 29},
		}})
	}
	for n := range 60 {
		use(shop, fmt.Sprintf("web-%02d", n), usedMonth)
		use(shop, fmt.Sprintf("web-%02d", n), usedMonth.Add(time.Hour))
	}
	use(shop, "later", usedMonth.AddDate(0, 1, 0))
	use(bank, "canary-machine", usedMonth)
	use(shop, "now", time.Now().UTC().Truncate(time.Hour))
}

// onHold holds a project of one datacenter, and an operation of another one.
func (w *fixture) onHold() {
	decided := func(decision, reason string) []writ.Decision {
		return []writ.Decision{{Decision: decision, Signer: "alice", Reason: reason, Time: time.Now().Add(-11 * time.Minute)}}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.holds = []api.DatacenterHolds{
		{Datacenter: ams, Name: "ams1", Holds: []api.Hold{{Project: shop, ProjectName: "web-shop", Held: true, Decided: decided("hold", "the disks of rack a1 fail")}}},
		{Datacenter: gent, Name: "gent2", Holds: []api.Hold{{Operation: "machine.create", Held: true, ByOperator: true, Decided: decided("hold", "the hypervisor is upgraded")}}},
	}
}

// depths sets the depths of the queues, different at each step.
func (w *fixture) depths(step int) {
	wave := func(n int) int { return (step*step*7/3+n*11)%17 + n }
	w.setQueues(
		api.DatacenterQueues{Datacenter: ams, Name: "ams1", Queues: []writ.QueueDepth{
			{NodeName: "(no node yet)", Planned: wave(4) / 2},
			{Node: "ams1-n1", NodeName: "ams1-n1", Running: 2 + step%3, Queued: wave(2), Planned: wave(3) / 3},
			{Node: "ams1-n2", NodeName: "ams1-n2", Running: 1 + step%2, Queued: wave(1) / 3},
			{Node: "ams1-n3", NodeName: "ams1-n3", Running: 1, Queued: wave(0) / 4, Planned: 1},
		}},
		api.DatacenterQueues{Datacenter: gent, Name: "gent2", Queues: []writ.QueueDepth{{Node: "gent2-n1", NodeName: "gent2-n1"}, {Node: "gent2-n2", NodeName: "gent2-n2", Running: step % 2}}},
		api.DatacenterQueues{Datacenter: fra, Name: "fra1", Error: writ.Errorf(writ.CodeDatacenterAway, "the datacenter fra1 is not connected")},
	)
}

// remember adds a history of five minutes, in which the queues filled and drained.
func (w *fixture) remember() {
	now := time.Now().UnixMilli()
	var samples [][4]int64
	for s := range int64(280) {
		hump := func(at, width, height int64) int64 { return max(0, height-(s-at)*(s-at)*height/(width*width)) }
		running := min(7, hump(60, 50, 8)+hump(150, 40, 9)+hump(262, 60, 7)+s*7%3)
		queued := hump(55, 30, 12) + hump(152, 34, 21) + hump(270, 44, 17) + s*5%2
		planned := hump(45, 20, 7) + hump(140, 24, 14) + hump(268, 30, 12)
		samples = append(samples, [4]int64{now - (280-s)*1000, running, queued, planned})
	}
	w.board.Remember(samples)
}

// remembers gives datacenters the values and logs of runs, and the log of a node.
func (w *fixture) remembers() {
	for n, name := range []string{"debian-12", "shop-net", "db-data"} {
		w.values.Calls = append(w.values.Calls, api.CallValues{
			Call: writ.Call{Seq: n + 1, Operation: "volume.create", Name: name, State: writ.CallSucceeded},
			Args: map[string]any{"size_gib": 10, "labels": map[string]any{"disk": "nvme"}}, Values: map[string]any{"path": "/var/lib/writ/volumes/" + name},
		})
	}
	w.values.Run.Output = map[string]any{"address": "10.0.0.7"}
	for n := range 30 {
		w.lines = append(w.lines, writ.LogLine{Ordinal: n + 1, Text: fmt.Sprintf("replica %d of 30 is ready, and this line is so long that a phone does not show the whole of it", n+1), Time: time.Now()})
		w.log.Lines = append(w.log.Lines, api.NodeLine{Time: time.Now(), Source: "runner", Level: "warn", Text: fmt.Sprintf("the journal cannot be written for the %d. time: the disk is full, and what follows has to wait", n+1)})
	}
}

// resources fills the ledger with the resources of a small datacenter.
func (w *fixture) resources(last writ.Run) {
	put := func(dc writ.DatacenterID, project writ.ProjectID, kind writ.ResourceKind, name string, change func(r *writ.Resource)) {
		r := &writ.Resource{
			ResourceID: writ.ResourceID{Project: project, Kind: kind, Name: name}, UID: writ.UID(name), Node: "ams1-n1", Driver: "btrfs", Standing: writ.Standing{State: "ready"}, Run: last.ID,
			Created: time.Now().Add(-time.Hour), Updated: time.Now().Add(-time.Minute),
		}
		if change != nil {
			change(r)
		}
		w.store(dc, writ.Event{Resource: r})
	}
	web := func(r *writ.Resource) { r.Deployment = "web" }
	for n := range 60 {
		put(ams, shop, writ.KindVolume, fmt.Sprintf("data-%02d", n), web)
	}
	put(ams, shop, writ.KindMachine, "web-0", func(r *writ.Resource) {
		r.Deployment, r.State, r.Driver, r.Simulated, r.Address, r.Node = "web", "running", "simulated", true, "10.0.0.7", "ams1-n2"
		r.Health = "unhealthy"
		r.MoreAddresses, r.Published = []string{"10.1.0.7"}, []writ.Published{{Address: "2001:db8::10", Port: 8080, To: 80, Protocol: "tcp"}}
	})
	put(ams, shop, writ.KindContainer, "cache", func(r *writ.Resource) { r.State, r.Drift = "gone", []string{"the container is not there any more"} })
	put(gent, shop, writ.KindNetwork, "shop-net", func(r *writ.Resource) { r.Deployment, r.Address, r.Node, r.Run = "shop", "10.1.0.0/24", "gent2-n2", "" })
	put(ams, bank, writ.KindHeroDB, "canary-db", func(r *writ.Resource) { r.Deployment, r.Drift = "canary-deployment", []string{"canary-drift"} })
	put(ams, bank, writ.KindVolume, "canary-volume", web)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.loads = map[string]*api.Load{"web-0": dayOfLoad(time.Now())}
}

// dayOfLoad returns the load of a running resource at a time, with samples of 20 hours and a gap.
func dayOfLoad(now time.Time) *api.Load {
	l := &api.Load{At: now.Add(-10 * time.Second), Running: true, MilliCPUs: 250, MemoryBytes: 300 << 20, Restarts: 2}
	for slot := 240; slot > 0; slot-- {
		if slot > 100 && slot < 120 {
			continue
		}
		at := now.Truncate(5 * time.Minute).Add(-time.Duration(slot) * 5 * time.Minute)
		l.Samples = append(l.Samples, api.LoadSample{At: at, MilliCPUs: int64(100 + slot%50*10), MemoryBytes: int64(200+slot) << 20})
	}
	return l
}

func (w *fixture) nodes(now time.Time) {
	node := func(dc writ.DatacenterID, name string, change func(n *writ.Node)) {
		n := &writ.Node{
			ID: writ.NodeID(name), Datacenter: dc, Name: name, Admission: writ.AdmissionApproved, Scheduling: writ.SchedulingOpen, Liveness: writ.LivenessReady,
			Health: writ.Health{Slots: 8, Capacity: writ.Capacity{CPUs: 32, MemoryMiB: 256 << 10, DiskGiB: 3800}, Drivers: []writ.NodeDriver{{Module: "image", Name: "directory"}, {Module: "volume", Name: "btrfs", Detail: "btrfs-progs 6.6"}, {Module: "machine", Name: "simulated", Simulated: true, Detail: "/dev/kvm is not there"}, {Module: "network", Name: "simulated", Simulated: true}}, Version: "v0.1.0"}, Used: writ.Capacity{CPUs: 10, MemoryMiB: 76 << 10, DiskGiB: 1240}, Joined: now.Add(-30 * 24 * time.Hour), LastBeat: now.Add(-600 * time.Millisecond), Labels: map[string]string{"rack": "a1", "disk": "nvme"},
		}
		if change != nil {
			change(n)
		}
		w.store(dc, writ.Event{Node: n})
	}
	node(ams, "ams1-n1", nil)
	node(ams, "ams1-n2", func(n *writ.Node) { n.Used = writ.Capacity{CPUs: 30, MemoryMiB: 181 << 10, DiskGiB: 3100} })
	node(ams, "ams1-n3", func(n *writ.Node) { n.Scheduling = writ.SchedulingCordoned })
	node(gent, "gent2-n1", func(n *writ.Node) { n.Liveness, n.LastBeat = writ.LivenessLost, now.Add(-26*time.Minute) })
	node(gent, "gent2-n2", func(n *writ.Node) {
		n.Fault, n.Orphans = "its journal cannot be written: the disk is full", []writ.Orphan{{Module: "network", Kind: "tap", Name: "m3kqhz2t7xw"}, {Module: "volume", Kind: "subvolume", Name: "v5tq2mlxa7c"}}
	})
	node(gent, "gent2-n3", func(n *writ.Node) { n.Admission = writ.AdmissionPending })
	node(fra, "fra1-n1", nil)
}

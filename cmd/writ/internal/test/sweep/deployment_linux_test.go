package sweep

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/cmd/writ/internal/test/testcluster"
	"writ/coord/api"
	"writ/internal/test/ociregistry"
	"writ/internal/test/testenv"
)

// deployment is the life of a service from a registry: two revisions, the second of which deletes a volume, a rollback,
// and the end.
func (h *hostCluster) deployment() tale {
	for version := range 2 {
		image := testenv.BusyboxThatSays(h.t, map[string]any{"Env": []string{"PATH=/bin", fmt.Sprintf("VERSION=%d", version+1)}})
		h.registry.Push(h.t, fmt.Sprintf("team/shop:%d", version+1), ociregistry.FromArchive(h.t, image.Path))
	}
	web := func(version int) string {
		return fmt.Sprintf(`container.create("shop", {image: "%s/team/shop:%d", command: ["sh", "-c", "exec httpd -f -p 80"], memory_mib: 32, grace_seconds: 1, `+
			`publish: [{port: 20081, to: 80}], health: {tcp: 80, interval_seconds: 1, timeout_seconds: 1}})`, h.registry.Host, version)
	}
	of := []string{"--deployment", "shop"}
	return tale{"deployment", []act{
		{name: "first revision", text: `volume.create("shop-old", {size_gib: 1}); ` + web(1), flags: of},
		{name: "second revision", text: web(2), flags: append(of, "--prune=volume/shop-old")},
		{name: "rollback", command: []string{"deployment", "rollback", "shop", "--to", "1", "--yes"}},
		{name: "destroy", command: []string{"deployment", "destroy", "shop", "--yes"}},
		{name: "deployment clearing", text: h.fetch("first", "oci", h.image.Path) + `; image.delete("first")`},
	}}
}

// carryCommand runs a command of a person until it ends; it must succeed. See carry.
func (h *hostCluster) carryCommand(a act, ends string) {
	h.t.Helper()
	before := h.newestRun()
	command := h.Command(a.command...)
	ended := make(chan error, 1)
	var said []byte
	go func() {
		var err error
		said, err = command.CombinedOutput()
		ended <- err
	}()
	for late := time.Now().Add(testcluster.Patience); ; time.Sleep(10 * time.Millisecond) {
		select {
		case err := <-ended:
			if err != nil {
				h.t.Errorf("%s: %v\n%s", a.name, err, said)
			}
			return
		default:
		}
		if h.tend(ends) {
			late = time.Now().Add(testcluster.Patience)
		}
		if h.disturb != nil && h.newestRun() != before {
			h.disturb()
		}
		if time.Now().After(late) {
			_ = command.Process.Kill()
			h.t.Fatalf("%s does not end:\n%s", a.name, tail(h.Procs[node].Said()))
		}
	}
}

// newestRun returns the run that was submitted last.
func (h *hostCluster) newestRun() writ.RunID {
	h.t.Helper()
	page, err := api.Answer[api.RunPage](h.Client.API.ListRuns(h.t.Context(), &api.ListRunsParams{Limit: api.Given(1)}))
	if err != nil {
		h.t.Fatal(err)
	}
	if len(page.Items) == 0 {
		return ""
	}
	return page.Items[0].ID
}

// TestDeploymentSurvivesKillsOfEachPart kills the supervisor, containerd or the runner at random moments of a service's
// life: the pull of its image, its replacement, the deletion of unnamed resources, a rollback and the end of the
// deployment. Each run succeeds, and the host is in the same state as without kills.
//
// Promise: Limits and shares: Supervisor, containerd and runner may be killed at any moment of a deployment: its run
// succeeds without leftovers or duplicates.
// How: Each records before it acts, and finishes or repeats the work after its restart.
// Also: TestARunnerMayEndBeforeEveryStepOfItsDrivers.
func TestDeploymentSurvivesKillsOfEachPart(t *testing.T) {
	testenv.Nightly(t, "TestInterruptedHandoverIsFinishedOrReverted of sal/containerd, and TestAScriptWorksOnRealDrivers of cmd/writ")
	for _, tool := range []string{"nft", "redis-server", "busybox", "qemu-img", "containerd", "runc", "ctr"} {
		testenv.Need(t, tool)
	}
	testenv.NeedTaps(t)
	if !testcluster.Alone(t, "failpoints", "-seed", fmt.Sprint(luck(t))) {
		return
	}
	random := rand.New(rand.NewPCG(*seed, 0))
	h := newHostCluster(t, false)
	h.carry(act{name: "warming up", text: h.fetch("first", "oci", h.image.Path) + `; image.delete("first")`}, "")
	h.sound("at first")
	story := h.deployment()
	took, want := map[string]time.Duration{}, map[string][]string{}
	for _, a := range story.acts {
		began := time.Now()
		h.carry(a, "")
		took[a.name], want[a.name] = time.Since(began), h.traces()
	}
	rounds := 2
	if testenv.IsLong() {
		rounds = 20
	}
	kills := map[string]func(){
		supervisor: func() { h.Kill(supervisor); h.Restart(supervisor) },
		node:       func() { h.rearm("") },
		"containerd": func() {
			h.containers.Kill()
			time.Sleep(time.Duration(random.IntN(2000)) * time.Millisecond)
			h.containers.Start()
		},
	}
	for round := range rounds {
		for _, victim := range []string{supervisor, "containerd", node} {
			for _, a := range story.acts {
				began, delay, killed := time.Now(), time.Duration(random.Int64N(int64(took[a.name]))), false
				h.disturb = func() {
					if !killed && time.Since(began) >= delay {
						killed = true
						kills[victim]()
					}
				}
				h.carry(a, "")
				h.disturb = nil
				what := fmt.Sprintf("round %d, %s with a kill of %s after %s", round, a.name, victim, delay)
				h.sound(what)
				if diff := cmp.Diff(want[a.name], h.traces()); diff != "" {
					t.Errorf("%s: something is otherwise than without kills:\n%s", what, diff)
				}
				t.Logf("%s: killed %v", what, killed)
			}
		}
	}
}

package sweep

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/cmd/writ/internal/test/testcluster"
	"writ/coord/api"
	"writ/internal/failpoint"
	"writ/internal/test/testenv"
	"writ/runner/queue/redisqueue"
	"writ/sal/simulated"
)

// Processes that always run, in addition to Redis.
const (
	coordinator = "coord"
	supervisor  = "dc1"
	node        = "dc1-n1"
)

// work creates and destroys resources of most kinds, has a failure that is retried, and an operation that must not be
// repeated. It is bound to a node: otherwise its calls could go to a node of another scene while this node restarts.
const (
	work = `
run := import("run")
container := import("container")
herodb := import("herodb")
image := import("image")
volume := import("volume")
params := {name: {type: "string"}}
name := run.params.name
data := volume.create(name, {size_gib: 1}, {node: "dc1-n1"})
db := herodb.create(name, {memory_mib: 16}, {node: "dc1-n1"})
flaky := herodb.create("flaky-1-" + name, {memory_mib: 16}, {node: "dc1-n1"})
run.log("made", db.address, flaky.address)
files := image.fetch(name, {url: "https://images.example/a.tar", sha256: "` + zeros + `", format: "oci"}, {node: "dc1-n1"})
app := container.create(name, {image: files, memory_mib: 16})
once := container.exec(app, {command: ["work"]})
if err := once.err; err != undefined {
	run.log("exec", err.code)
}
herodb.delete(db)
volume.delete(data)
`
	zeros       = "0000000000000000000000000000000000000000000000000000000000000000"
	workEffects = 8 // maximum; one less if it is unknown whether the program ran
)

// slow has a job that takes a while, followed by a non-repeatable job.
const slow = `
run := import("run")
container := import("container")
image := import("image")
params := {name: {type: "string"}}
name := run.params.name
files := image.fetch(name, {url: "https://images.example/a.tar", sha256: "` + zeros + `", format: "oci"}, {node: "dc1-n1"})
app := container.create("slow-2-" + name, {image: files, memory_mib: 16})
run.log("made", app.node)
once := container.exec(app, {command: ["work"]})
if err := once.err; err != undefined {
	run.log("exec", err.code)
}
`

// failing fails, and fails again when resumed.
const failing = `
run := import("run")
herodb := import("herodb")
params := {name: {type: "string"}}
herodb.create("fail-" + run.params.name, {memory_mib: 16}, {node: "dc1-n1"})
`

// priced creates a resource that is charged for.
const priced = `
run := import("run")
volume := import("volume")
params := {name: {type: "string"}}
data := volume.create(run.params.name, {size_gib: 1})
volume.delete(data)
`

// cluster is a running cluster with its victim.
type cluster struct {
	*testcluster.Cluster
	t     *testing.T
	redis *testenv.RedisServer
	// server is nil until it is needed.
	server *testenv.PostgresServer
	count  int
	nodes  []string
	runs   []order // submitted and not yet checked
	ids    map[string]writ.NodeID

	stores []string // additional stores to check at the end

	victim  string // the process that is to end, "" once it has ended
	due     end
	reached bool
}

// order is a submitted run with its expected outcome.
type order struct {
	id     writ.RunID
	states []writ.RunState
	most   int // effects
	least  int
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	w := &cluster{t: t, redis: testenv.Redis(t), ids: map[string]writ.NodeID{}}
	w.Cluster = testcluster.Empty(t)
	w.Use(testcluster.Binary(t, "failpoints"))
	w.Coord = []string{"--webhooks", w.webhooks()}
	w.Found()
	// Enough for all leftovers.
	w.Add(testcluster.Datacenter{Name: supervisor, Redis: w.redis.URL, Nodes: 1, Speed: "0", Node: []string{"--cpus", "100000", "--memory-mib", "1000000"}})
	w.nodes = []string{node}
	w.Script("work.tengo", work)
	w.Script("slow.tengo", slow)
	w.Script("failing.tengo", failing)
	w.Script("charged.tengo", priced)
	return w
}

// webhooks writes the settings of a webhook whose receiver accepts everything and returns the file name.
func (w *cluster) webhooks() string {
	w.t.Helper()
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	w.t.Cleanup(receiver.Close)
	dir := w.t.TempDir()
	path := filepath.Join(dir, "webhooks.yaml")
	for name, text := range map[string]string{
		path: "webhooks:\n  - {name: ops, url: " + receiver.URL + ", secret_file: ops.secret}\n", filepath.Join(dir, "ops.secret"): "whsec_" + strings.Repeat("c2Vj", 11),
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
	return path
}

// next returns an unused name.
func (w *cluster) next() string {
	w.count++
	return fmt.Sprintf("x%d", w.count)
}

// Until waits like Until of testcluster, and restarts the victim if it has ended.
func (w *cluster) Until(what string, is func(ctx context.Context) bool) {
	w.t.Helper()
	w.Cluster.Until(what, func(ctx context.Context) bool {
		w.tend()
		return is(ctx)
	})
}

// tend restarts the victim if it has ended. A victim with the error of a full disk keeps running.
func (w *cluster) tend() {
	if w.victim == "" {
		return
	}
	p := w.Procs[w.victim]
	gone := p.Ended()
	w.reached = w.reached || strings.Contains(p.Said(), "failpoint "+w.due.String()+"\n")
	if gone {
		w.Launch(w.victim)
	}
	if gone || w.reached && w.due.mode == failpoint.Fail {
		w.victim = ""
	}
}

// try runs a command and tends the victim meanwhile.
func (w *cluster) try(args ...string) (out, said string, code int) {
	w.t.Helper()
	cmd := w.Command(args...)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return strings.TrimSpace(stdout.String()), strings.TrimSpace(stderr.String()), cmd.ProcessState.ExitCode()
		case <-tick.C:
			w.tend()
		}
	}
}

// insist repeats a command until it succeeds, because processes end meanwhile.
func (w *cluster) insist(args ...string) (out string) {
	w.t.Helper()
	var last string
	w.Until(strings.Join(args, " "), func(context.Context) bool {
		var said string
		var code int
		out, said, code = w.try(args...)
		if code != 0 && said != last {
			w.t.Logf("%v: exit %d: %s", args, code, said)
		}
		last = said
		return code == 0
	})
	return out
}

// restart kills and restarts a process other than the victim.
func (w *cluster) restart(name string) {
	w.t.Helper()
	w.Kill(name)
	w.begin(name)
}

// begin starts a process and waits until it is ready.
func (w *cluster) begin(name string) {
	w.t.Helper()
	p := w.Launch(name)
	says := "is listening"
	if slices.Contains(w.nodes, name) || name == meteredNode {
		says = "has joined"
	}
	w.Until(name+" serves", func(context.Context) bool { return strings.Contains(p.Said(), says) })
}

// submit signs a script once and repeats the submission until it is accepted.
func (w *cluster) submit(script string, most, least int, states ...writ.RunState) writ.RunID {
	w.t.Helper()
	return w.submitTo(supervisor, script, most, least, states...)
}

// submitTo submits to another datacenter.
func (w *cluster) submitTo(datacenter, script string, most, least int, states ...writ.RunState) writ.RunID {
	w.t.Helper()
	name := w.next()
	w.insist("sign", script, "--dc", datacenter, "-p", "name="+name, "--destructive", "--output", name+".writ")
	id := writ.RunID(w.insist("submit", "--detach", name+".writ"))
	w.runs = append(w.runs, order{id, states, most, least})
	return id
}

func (w *cluster) work() { w.submit("work.tengo", workEffects, workEffects-1, writ.RunSucceeded) }

// ended lists the final states of runs.
var ended = map[string]bool{"succeeded": true, "failed": true, "cancelled": true, "expired": true, "refused": true}

// run returns a run as the coordinator shows it, or an empty one if the coordinator does not respond.
func (w *cluster) run(ctx context.Context, id writ.RunID) api.Run {
	run, err := api.Answer[api.Run](w.Client.API.GetRun(ctx, id))
	if err != nil {
		return api.Run{}
	}
	return run
}

// awaitRuns waits until all runs have ended and checks their effects.
func (w *cluster) awaitRuns() {
	w.t.Helper()
	for _, o := range w.runs {
		var state string
		w.Until("run "+string(o.id)+" ends", func(ctx context.Context) bool {
			state = string(w.run(ctx, o.id).State)
			return ended[state]
		})
		fits := false
		for _, s := range o.states {
			fits = fits || string(s) == state
		}
		if !fits {
			w.t.Errorf("run %s is %s, want %v", o.id, state, o.states)
		}
		have := 0
		for key, n := range w.Effects(w.nodes...) {
			if strings.HasPrefix(key, string(o.id)) {
				have += n
			}
		}
		if have > o.most || have < o.least {
			w.t.Errorf("run %s had %d effects, want %d to %d:\n%s", o.id, have, o.least, o.most, w.insist("run", "show", string(o.id)))
		}
	}
	w.runs = nil
	w.sameNodes()
}

// sameNodes checks that the nodes kept their ids.
func (w *cluster) sameNodes() {
	w.t.Helper()
	w.Until("nodes are listed", func(ctx context.Context) bool {
		list, err := api.Answer[api.NodePage](w.Client.API.ListNodes(ctx, nil))
		for _, n := range list.Items {
			if known := w.ids[n.Name]; known != "" && known != n.ID {
				w.t.Errorf("%s is node %s, and was %s", n.Name, n.ID, known)
			}
			w.ids[n.Name] = n.ID
		}
		return err == nil
	})
}

// once checks that no job took effect twice.
func (w *cluster) once() {
	w.t.Helper()
	type change struct {
		uid        writ.UID
		generation int64
	}
	for _, name := range w.nodes {
		keys, changes := map[string]int{}, map[change]int{}
		effects, err := simulated.ReadEffects(filepath.Join(w.Dir, name, "host", "simulated"))
		if err != nil {
			w.t.Fatal(err)
		}
		for _, e := range effects {
			keys[e.Key]++
			changes[change{e.UID, e.Generation}]++
			if keys[e.Key] > 1 || changes[change{e.UID, e.Generation}] > 1 {
				w.t.Errorf("%s on %s took effect twice: %+v", e.Key, name, e)
			}
		}
	}
}

// newNode prepares a node that has never been started and returns its name.
func (w *cluster) newNode() string {
	w.t.Helper()
	name := w.next()
	token := w.insist("token", "create", "--dc", supervisor)
	if err := os.WriteFile(filepath.Join(w.Dir, name+".token"), []byte(token), 0o600); err != nil {
		w.t.Fatal(err)
	}
	w.Prepare(name, "has joined", "runner", "--data", name, "--name", name, "--supervisor", w.api(), "--redis", redisqueue.Server{URL: w.redis.URL}.WithoutLogin().URL,
		"--join", "@"+name+".token", "--drivers", "simulated", "--simulate-speed", "0", "--memory-mib", "1024", "--cpus", "1", "--disk-gib", "10")
	w.nodes = append(w.nodes, name)
	return name
}

// batch approves the machine with a serial number in advance.
func (w *cluster) batch(serial string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.Dir, "serials"), []byte(serial+"\n"), 0o600); err != nil {
		w.t.Fatal(err)
	}
	w.insist("batch", "create", "--dc", supervisor, "--serials", "serials")
}

// newDatacenter prepares a supervisor that has never been started, while `dc add` waits to add it to the roster.
func (w *cluster) newDatacenter(more ...string) string {
	w.t.Helper()
	name := w.next()
	w.Start("add "+name, "Start the supervisor", "dc", "add", name, "--region", "here", "--token-file", name+".token", "--no-wait")
	w.Prepare(name, "is listening", append([]string{"supervisor", "--data", name, "--dc", name, "--coordinator", w.URL, "--redis", w.database(1),
		"--listen", fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(w.t)), "--join", "@" + name + ".token"}, more...)...)
	return name
}

// founded waits until a new datacenter serves, and then stops it permanently, because the next one needs its place.
// Other datacenters therefore do not wait for its adoption of a roster.
func (w *cluster) founded(name string) {
	w.t.Helper()
	w.Until(name+" is in the roster", func(context.Context) bool { return w.Procs["add "+name].Ended() })
	if err := w.Procs["add "+name].Err; err != nil {
		w.t.Errorf("dc add %s: %v\n%s", name, err, w.Procs["add "+name].Said())
		return
	}
	w.Until(name+" serves", func(context.Context) bool { return strings.Contains(w.Procs[name].Said(), "is listening") })
	w.Kill(name)
	if _, err := os.Stat(filepath.Join(w.Dir, name, "journal.db")); err == nil { // it may be on PostgreSQL instead
		w.stores = append(w.stores, name+"/journal.db")
	}
}

// database returns the URL of another database of the cluster's Redis.
func (w *cluster) database(n int) string {
	return fmt.Sprint(strings.TrimSuffix(w.redis.URL, "0"), n)
}

// postgres returns the URL of a new database on a server that is started on demand.
func (w *cluster) postgres() string {
	if w.server == nil {
		w.server = testenv.Postgres(w.t)
	}
	return w.server.Store()
}

// addMetered adds the metered datacenter, if it is missing. Its node has real volumes, whose usage is charged to
// projects.
func (w *cluster) addMetered() {
	w.t.Helper()
	if w.Procs[metered] == nil {
		w.Add(testcluster.Datacenter{Name: metered, Redis: w.database(2), Nodes: 1, Speed: "0", Node: []string{"--drivers", "auto"}, NoWait: true})
		w.stores = append(w.stores, metered+"/journal.db", meteredNode+"/journal.db")
	}
}

// losing restores the supervisor's journal from before an action. It stops the supervisor.
func (w *cluster) losing(what func()) {
	w.t.Helper()
	copied := w.next()
	w.insist("backup", "--data", supervisor, copied+".tar")
	what()
	w.Kill(supervisor)
	data := filepath.Join(w.Dir, supervisor)
	if err := os.Rename(data, data+"-before-"+copied); err != nil {
		w.t.Fatal(err)
	}
	w.insist("restore", "--data", supervisor, copied+".tar")
}

// evaluators returns the pids of the supervisor's evaluators.
func (w *cluster) evaluators() (all []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		text, _ := os.ReadFile(file) // empty if it has just exited
		var pid, parent int
		var state string
		_, behindName, _ := strings.Cut(string(text), ") ")
		if n, _ := fmt.Sscan(behindName, &state, &parent); n == 2 && parent == w.Procs[supervisor].Cmd.Process.Pid {
			_, _ = fmt.Sscan(string(text), &pid)
			all = append(all, pid)
		}
	}
	return all
}

// api returns the configured address of the supervisor's node API.
func (w *cluster) api() string {
	args := w.Procs[supervisor].Cmd.Args
	for i, a := range args {
		if a == "--listen" {
			return "http://" + args[i+1]
		}
	}
	w.t.Fatal("the supervisor has no node API")
	return ""
}

// cancel cancels a run once it has started.
func (w *cluster) cancel(id writ.RunID) {
	w.t.Helper()
	w.Until("run "+string(id)+" is cancelled", func(ctx context.Context) bool {
		if ended[string(w.run(ctx, id).State)] {
			return true
		}
		_, _, code := w.try("run", "cancel", string(id))
		return code == 0
	})
}

// busy waits until a node works on a call of a run, with at least this number.
func (w *cluster) busy(id writ.RunID, seq int) {
	w.t.Helper()
	w.Until("run "+string(id)+" works", func(ctx context.Context) bool {
		list, err := api.Answer[api.CallPage](w.Client.API.ListCalls(ctx, id, nil))
		if err != nil {
			return false
		}
		for _, c := range list.Items {
			if c.Seq >= seq && c.State == writ.CallRunning {
				return true
			}
		}
		return ended[string(w.run(ctx, id).State)]
	})
}

// reachWithin is how long a place may take to be reached after the work.
const reachWithin = time.Minute

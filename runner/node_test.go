package runner_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"writ"
	"writ/identity/envelope"
	"writ/internal/test/metricspage"
	"writ/runner"
	"writ/runner/journal"
	"writ/runner/member"
	"writ/runner/queue"
	"writ/runner/queue/memory"
	"writ/supervisor/nodes"
)

// node is a running runner, and the supervisor's end of its queue.
type node struct {
	*fixture
	dir    string
	member *member.Member
	runner *runner.Runner
	queue  *memory.Queue
	host   *host
	cancel context.CancelFunc
	ended  chan error

	journal   *journal.Journal
	listening sync.WaitGroup
	deaf      context.CancelFunc

	mu       sync.Mutex
	results  []writ.Result // in order of arrival, with repetitions
	messages int           // messages that contained results
	beats    [][]byte      // signed
	reports  []writ.Report
	hosts    []nodes.HostReport
	loads    []nodes.LoadReport
	logs     []nodes.LogReport
}

// counted returns the sum of a counter of the runner: jobs, repeated, refusals or dropped.
func (n *node) counted(what string) float64 {
	n.Helper()
	return metricspage.Read(n.TB, n.runner.Metrics).Sum("writ_runner_" + what + "_total")
}

// start runs a runner on a data directory whose node has joined. It must be called in a synctest bubble: its waits take
// no real time. change may be nil.
func (s *fixture) start(dir string, h *host, change func(r *runner.Runner)) *node {
	s.Helper()
	m, err := member.Join(s.Context(), member.Joining{Dir: dir, API: s})
	must(s.TB, err)
	j, err := journal.Open(s.Context(), filepath.Join(dir, "runner.db"))
	must(s.TB, err)
	n := &node{fixture: s, dir: dir, member: m, queue: memory.New(), host: h, journal: j, ended: make(chan error, 1)}
	n.queue.Log = logger(s.TB)
	n.runner = &runner.Runner{
		Member: m, API: s, Queue: n.queue, Journal: j, Drivers: h.drivers(), Slots: 4, Version: "test", Log: logger(s.TB),
		Capacity: writ.Capacity{CPUs: 4, MemoryMiB: 1024},
	}
	if change != nil {
		change(n.runner)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.Context()))
	n.cancel = cancel
	go func() { n.ended <- n.runner.Run(ctx) }()
	hearing, deaf := context.WithCancel(context.WithoutCancel(s.Context()))
	n.deaf = deaf
	n.listening.Go(func() { n.hear(hearing) })
	s.Cleanup(n.stop)
	return n
}

// logger shows the runner's log when a test fails.
func logger(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// fresh joins and starts a node in a new directory.
func (s *fixture) fresh(change func(r *runner.Runner)) *node {
	s.Helper()
	dir := s.TempDir()
	s.join(dir)
	return s.start(dir, newHost(), change)
}

// again stops n and starts another incarnation on the same directory and host.
func (n *node) again() *node {
	n.Helper()
	n.stop()
	return n.fixture.start(n.dir, n.host, nil)
}

// stop ends the runner and waits for it. It may be called twice.
func (n *node) stop() {
	n.Helper()
	if n.cancel == nil {
		return
	}
	n.cancel()
	if err := <-n.ended; err != nil {
		n.Errorf("the runner ended with %v", err)
	}
	n.deaf()
	n.listening.Wait()
	must(n.TB, n.queue.Close())
	must(n.TB, n.journal.Close())
	n.cancel = nil
}

// hear collects the node's messages.
func (n *node) hear(ctx context.Context) {
	for ctx.Err() == nil {
		messages, err := n.queue.Receive(ctx, time.Second, queue.Stream{Node: n.member.Node(), Direction: queue.Out})
		if err != nil {
			time.Sleep(100 * time.Millisecond)
		}
		for _, m := range messages {
			n.take(m.Body)
		}
		_ = n.queue.Acknowledge(ctx, messages...)
	}
}

// take opens the envelope of results. Beats are opened only when a test needs one, because there are many.
func (n *node) take(body []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if bytes.Contains(body, []byte("sequence")) {
		n.beats = append(n.beats, body)
		return
	}
	if reports, _, err := envelope.Open[writ.Report](envelope.Report, body, envelope.Only(n.member.PublicKey())); err == nil {
		n.reports = append(n.reports, reports...)
		return
	}
	if logs, _, err := envelope.Open[nodes.LogReport](envelope.Log, body, envelope.Only(n.member.PublicKey())); err == nil {
		n.logs = append(n.logs, logs...)
		return
	}
	if hosts, _, err := envelope.Open[nodes.HostReport](envelope.Host, body, envelope.Only(n.member.PublicKey())); err == nil {
		n.hosts = append(n.hosts, hosts...)
		return
	}
	if loads, _, err := envelope.Open[nodes.LoadReport](envelope.Load, body, envelope.Only(n.member.PublicKey())); err == nil {
		n.loads = append(n.loads, loads...)
		return
	}
	results, _, err := envelope.Open[writ.Result](envelope.Result, body, envelope.Only(n.member.PublicKey()))
	if err != nil {
		n.Errorf("the node sent %d bytes that are neither results nor a beat: %v", len(body), err)
	}
	n.results = append(n.results, results...)
	n.messages++
}

// job returns a job of a run that alice signed. Jobs with the same sequence number have the same key.
func (s *fixture) job(seq int, operation, name string, change func(j *writ.Job)) *writ.Job {
	now := time.Now()
	payload := s.everyday
	j := &writ.Job{
		JobKey: writ.JobKey{Run: writ.RunIDOf(payload), Seq: seq, Attempt: 1}, Cluster: s.roster.Cluster, Datacenter: s.datacenter,
		Delivery: 1, Epoch: 1, Operation: operation, Project: s.project, Name: name, Payload: payload, Accepted: now.UnixMilli(),
		StartBy: now.Add(30 * time.Second).UnixMilli(), EndBy: now.Add(time.Minute).UnixMilli(),
	}
	if name != "" {
		j.UID = "0192f6c2-0000-7000-8000-0000000000aa"
	}
	if operation == "volume.create" {
		j.Args = map[string]any{"size_gib": int64(1)}
	}
	if operation == "container.exec" {
		j.Args = map[string]any{"command": []any{"true"}}
	}
	if operation == "container.run" {
		j.Args = map[string]any{"image": "web"}
	}
	if change != nil {
		change(j)
	}
	return j
}

// push signs a job with the supervisor's key and adds it to the node's queue.
func (n *node) push(j *writ.Job) {
	n.Helper()
	j.Node = cmp.Or(j.Node, n.member.Node())
	n.pushSigned(n.supervisor, envelope.Job, j)
}

func (n *node) pushSigned(key ed25519.PrivateKey, kind envelope.Kind, j *writ.Job) {
	n.Helper()
	signed, _, err := envelope.SignEach(kind, key, j)
	must(n.TB, err)
	n.pushBytes(j.TaskID(), signed[0])
}

func (n *node) pushBytes(id string, body []byte) {
	n.Helper()
	must(n.TB, n.queue.Push(n.Context(), n.member.Node(), queue.Task{ID: id, Body: body, EndBy: time.Now().Add(time.Hour)}))
}

// tell sends a control message to the node.
func (n *node) tell(c writ.Control) {
	n.Helper()
	c.Node = cmp.Or(c.Node, n.member.Node())
	c.Epoch = cmp.Or(c.Epoch, 1)
	signed, err := envelope.Sign(envelope.Control, n.supervisor, c)
	must(n.TB, err)
	must(n.TB, n.queue.Send(n.Context(), queue.Stream{Node: n.member.Node(), Direction: queue.In}, signed))
	synctest.Wait()
}

// got returns the results of a job so far, with repetitions.
func (n *node) got(key writ.JobKey) []writ.Result {
	n.mu.Lock()
	defer n.mu.Unlock()
	var results []writ.Result
	for i := range n.results { // without copies, which the race detector would check byte by byte
		if n.results[i].JobKey == key {
			results = append(results, n.results[i])
		}
	}
	return results
}

// await returns the first result of a job. It fails the test after two minutes without one.
func (n *node) await(key writ.JobKey) writ.Result {
	n.Helper()
	for range 1200 {
		synctest.Wait()
		if got := n.got(key); len(got) > 0 {
			return got[0]
		}
		time.Sleep(100 * time.Millisecond)
	}
	n.Fatalf("no result of %s arrived", key)
	return writ.Result{}
}

// quiet sleeps for d, and waits until all goroutines are blocked.
func quiet(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// lastBeat returns the newest beat.
func (n *node) lastBeat() writ.Beat {
	n.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.beats) == 0 {
		n.Fatal("the node sent no beat")
	}
	beats, _, err := envelope.Open[writ.Beat](envelope.Beat, n.beats[len(n.beats)-1], envelope.Only(n.member.PublicKey()))
	must(n.TB, err)
	return beats[0]
}

// lastReport returns the newest report.
func (n *node) lastReport() writ.Report {
	n.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.reports) == 0 {
		n.Fatal("the node never reported")
	}
	return n.reports[len(n.reports)-1]
}

// active reports whether the node's newest beat contains a job.
func (n *node) active(key writ.JobKey) bool {
	n.Helper()
	return slices.Contains(n.lastBeat().Active, key)
}

func codeOf(r writ.Result) writ.Code {
	if r.Error == nil {
		return ""
	}
	return r.Error.Code
}

// disk copies the data directory: the state that a process finds if this one is killed now.
func (n *node) disk() string {
	n.Helper()
	dir := filepath.Join(n.TempDir(), "disk")
	must(n.TB, os.CopyFS(dir, os.DirFS(n.dir)))
	return dir
}

package runner_test

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"writ"
	"writ/identity/envelope"
	"writ/runner"
	"writ/runner/journal"
	"writ/runner/queue"
	"writ/runner/queue/embedded"
	"writ/runner/queue/redisqueue"
	"writ/sal"
	hostdriver "writ/sal/host"
	"writ/sal/simulated"
)

// The other tests of this package run in virtual time, with a queue in memory and their own driver. This one uses
// Redis, which loses all data in the middle, and simulated drivers.
func TestRunnerServesSimulatedDriversOverRedis(t *testing.T) {
	s, dir := newFixture(t), t.TempDir()
	redis := embedded.New("127.0.0.1:0")
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = redis.Run(ctx) })
	url, err := redis.URL(t.Context())
	must(t, err)
	open := func() *redisqueue.Queue {
		q, err := redisqueue.Open(url)
		must(t, err)
		return q
	}
	theirs, ours := open(), open()
	volumes, err := simulated.Open(simulated.Config{Module: "volume", Dir: t.TempDir()})
	must(t, err)
	drivers := []sal.Driver{volumes}
	drivers = append(drivers, &hostdriver.Driver{Dir: dir, Drivers: func() []writ.NodeDriver { return []writ.NodeDriver{volumes.Describe()} }})
	m := s.join(dir)
	records, err := journal.Open(t.Context(), filepath.Join(dir, "runner.db"))
	must(t, err)
	serving, end := context.WithCancel(ctx)
	r := &runner.Runner{Member: m, API: s, Queue: theirs, Journal: records, Drivers: drivers, Log: logger(t)}
	ended := make(chan error, 1)
	go func() { ended <- r.Run(serving) }()
	defer func() {
		end()
		must(t, <-ended)
		must(t, theirs.Close())
		must(t, ours.Close())
		must(t, records.Close())
		stop()
		running.Wait()
	}()

	results := map[writ.JobKey]writ.Result{}
	carryOut := func(j *writ.Job) writ.Result {
		t.Helper()
		j.Node = m.Node()
		signed, _, err := envelope.SignEach(envelope.Job, s.supervisor, j)
		must(t, err)
		must(t, ours.Push(t.Context(), m.Node(), queue.Task{ID: j.TaskID(), Body: signed[0], EndBy: time.UnixMilli(j.EndBy)}))
		for {
			messages, err := ours.Receive(t.Context(), time.Second, queue.Stream{Node: m.Node(), Direction: queue.Out})
			must(t, err)
			for _, message := range messages {
				some, _, err := envelope.Open[writ.Result](envelope.Result, message.Body, envelope.Only(m.PublicKey()))
				if err != nil {
					continue // a beat
				}
				for _, r := range some {
					results[r.JobKey] = r
				}
			}
			must(t, ours.Acknowledge(t.Context(), messages...))
			if r, ok := results[j.JobKey]; ok {
				return r
			}
		}
	}

	volume := s.job(1, "volume.create", "data", nil)
	if got := carryOut(volume); got.Error != nil || got.Change != writ.ChangeCreated || !got.Simulated {
		t.Errorf("volume.create = %+v", got)
	}
	redis.Flush()
	if got := carryOut(s.job(2, "node.facts", "", nil)); got.Error != nil || got.Values["cpus"] == nil || got.Simulated {
		t.Errorf("node.facts after everything in Redis was lost = %+v", got)
	}
	volume.Delivery = 2
	delete(results, volume.JobKey)
	if got := carryOut(volume); got.Change != writ.ChangeCreated {
		t.Errorf("volume.create delivered again = %+v", got)
	}
	effects, err := volumes.Effects()
	must(t, err)
	if len(effects) != 1 {
		t.Errorf("%d effects, want 1", len(effects))
	}
}

package sqlstore_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/internal/procstat"
	"writ/ledger"
	"writ/ledger/sqlstore"
)

// BenchmarkRuns stores the submissions and events of runs with ten calls each, 50 runs at a time. The subtests differ
// in the number of events that arrive together. It reports the CPU time and the written bytes per call.
func BenchmarkRuns(b *testing.B) {
	for _, together := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("%d-together", together), func(b *testing.B) {
			store, err := sqlstore.Open(b.Context(), filepath.Join(b.TempDir(), "ledger.db"))
			if err != nil {
				b.Fatal(err)
			}
			defer store.Close()
			f := flow{to: store}
			f.store(b, f.add(b, 200), together) // warm up
			cpu, _, err := procstat.Taken(os.Getpid())
			if err != nil {
				b.Fatal(err)
			}
			written, err := procstat.Written(os.Getpid())
			if err != nil {
				b.Fatal(err)
			}
			calls := 0
			for b.Loop() {
				f.store(b, f.add(b, flowing), together)
				calls += flowing * flowCalls
			}
			cpu2, _, _ := procstat.Taken(os.Getpid())
			written2, _ := procstat.Written(os.Getpid())
			b.ReportMetric(float64((cpu2-cpu).Microseconds())/float64(calls), "cpu-µs/call")
			b.ReportMetric(float64(written2-written)/float64(calls), "B/call")
		})
	}
}

const (
	flowing   = 50 // runs at a time
	flowCalls = 10 // calls of a run
)

// flow makes the events of runs as a supervisor does.
type flow struct {
	to   *sqlstore.Store
	runs int
	seq  int64
}

const flowDC = writ.DatacenterID("0192f6c2-0000-7000-8000-00000000000a")

// add stores the submissions of further runs, and returns the events of each.
func (f *flow) add(b *testing.B, runs int) (all [][]writ.Event) {
	b.Helper()
	for range runs {
		f.runs++
		digest := writ.DigestOf(fmt.Append(nil, f.runs))
		now := time.Now().UTC()
		in := ledger.Incoming{
			Submission: writ.Submission{
				Payload: digest, Run: writ.RunIDOf(digest), Datacenter: flowDC, Project: "0192f6c2-0000-7000-8000-0000000000c1", Signer: "alice", Script: "steps.tengo",
				Received: now, Expires: now.Add(time.Hour),
			},
			ProjectName: "shop", Params: map[string]any{"calls": int64(10)}, Signed: []byte(strings.Repeat("signed text ", 80)),
		}
		if _, _, err := f.to.AddSubmission(b.Context(), in); err != nil {
			b.Fatal(err)
		}
		all = append(all, eventsOf(in))
	}
	return all
}

// eventsOf returns the events of a run that succeeds.
func eventsOf(in ledger.Incoming) (events []writ.Event) {
	now := in.Received
	run := writ.Run{
		ID: in.Run, Datacenter: in.Datacenter, Project: in.Project, ProjectName: in.ProjectName, Signer: in.Signer, Script: in.Script, Payload: in.Payload,
		State: writ.RunAccepted, Accepted: now, Deadline: now.Add(time.Hour),
	}
	add := func(e writ.Event) {
		e.Time = now
		events = append(events, e)
	}
	addRun := func(state writ.RunState) {
		run.State = state
		r := run
		add(writ.Event{Run: &r})
	}
	addRun(writ.RunAccepted)
	run.Started = now
	addRun(writ.RunRunning)
	for n := range flowCalls {
		call := writ.Call{
			Run: in.Run, Seq: n + 1, Operation: "node.ping", Position: "steps.tengo:6:2", State: writ.CallQueued, Node: "0192f6c2-0000-7000-8000-00000000000f",
			NodeName: "dc1-n1", Driver: "simulated", Simulated: true, Attempt: 1, Planned: now, Queued: now, EndBy: now.Add(time.Minute),
		}
		for _, state := range []writ.CallState{writ.CallQueued, writ.CallRunning, writ.CallSucceeded} {
			call.State, call.Delivery, call.Started = state, 1, now
			if state == writ.CallSucceeded {
				call.Ended = now
			}
			c := call
			add(writ.Event{Call: &c})
		}
	}
	run.Ended, run.Summary = now, []byte(strings.Repeat("summary ", 70))
	addRun(writ.RunSucceeded)
	return events
}

// store stores the events of runs that advance in turns, several events at once.
func (f *flow) store(b *testing.B, runs [][]writ.Event, together int) {
	b.Helper()
	var events []writ.Event
	for n := range runs[0] {
		for _, of := range runs {
			events = append(events, of[n])
		}
	}
	for i := range events {
		f.seq++
		events[i].Journal, events[i].Seq = "j", f.seq
	}
	for part := range slices.Chunk(events, together) {
		if err := f.to.StoreEvents(b.Context(), flowDC, part); err != nil {
			b.Fatal(err)
		}
	}
}

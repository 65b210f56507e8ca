package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"writ"
	"writ/identity"
	"writ/internal/sleep"
	"writ/ledger/sqlstore"
)

// HistoryReport holds the times of lists of a coordinator whose ledger has ended runs.
type HistoryReport struct {
	Runs        int          `json:"runs"`
	FillSeconds float64      `json:"fill_seconds"` // since the previous report
	Lists       []ListReport `json:"lists"`
}

// ListReport holds the times of one list or page, at the client.
type ListReport struct {
	Address string `json:"address"` // path and query; ids are shown as words in capitals
	Bytes   int    `json:"bytes"`   // of the last answer
	Time    Spread `json:"time"`
}

// Numbers of different names among the runs of a history. One run of ten has failed.
const (
	historySigners     = 40
	historyScripts     = 50
	historyDeployments = 300
	historyFailed      = 10
)

const (
	// historyBatch is the number of events that are stored in one transaction, as in a batch of a link.
	historyBatch = 1000
	// askPause is the pause between requests, which is not measured. It keeps the client below the coordinator's limit
	// per client address: 100 lists per second.
	askPause = 15 * time.Millisecond
	// historySpan is the time between the first and the last run of a history. A coordinator keeps runs for longer.
	historySpan = 6 * 24 * time.Hour
	// listAnswer limits the time for an answer.
	listAnswer = time.Minute
)

// history is a coordinator with a ledger of ended runs, and without a connected datacenter.
type history struct {
	owner      owner
	dir        string
	ledger     string // path or address of the ledger
	datacenter *identity.Datacenter
	seq        int64 // number of the last stored event
	stored     int   // runs
	total      int   // runs of the whole history
	requests   int   // of each list
	began      time.Time
}

// history measures the lists of a coordinator with a tenth of the runs of a history, and then with all of them.
func (g *Growth) history(ctx context.Context, dir string, r *GrowthReport) (err error) {
	h := &history{dir: dir, total: g.History, requests: g.Requests, began: time.Now().UTC()}
	supervisor := filepath.Join(dir, supervisorDir)
	err = h.owner.found(false, []string{supervisor}, filepath.Join(dir, coordinatorDir), filepath.Join(dir, clientDir))
	if err != nil {
		return err
	}
	h.datacenter = &h.owner.person.Roster.Datacenters[0]
	h.ledger = filepath.Join(dir, coordinatorDir, "ledger.db")
	o := &own{served: &served{}}
	defer func() { err = errors.Join(err, o.close()) }()
	if g.Postgres != "" {
		if err := o.useDatabases(ctx, dir, g.Postgres); err != nil {
			return err
		}
		address, err := os.ReadFile(o.served.ledger)
		if err != nil {
			return fmt.Errorf("read the address of the ledger: %w", err)
		}
		h.ledger = string(address)
	}
	like := &cluster{version: g.Version, log: g.Log, logs: g.Errors}
	for _, runs := range []int{max(g.History/10, 1), g.History} {
		begun := time.Now()
		if err := h.fill(ctx, runs); err != nil {
			return fmt.Errorf("fill the ledger: %w", err)
		}
		report := HistoryReport{Runs: runs, FillSeconds: time.Since(begun).Seconds()}
		g.Note("%d ended runs in the ledger after %.1f s", runs, report.FillSeconds)
		if err := o.served.begin(ctx, dir, &h.owner, like); err != nil {
			return err
		}
		if report.Lists, err = h.lists(ctx, o.served); err != nil {
			return err
		}
		r.Histories = append(r.Histories, report)
		if err := o.served.close(); err != nil {
			return err
		}
		o.served = &served{ledger: o.served.ledger}
	}
	return nil
}

// fill adds ended runs of one call until the ledger has a number of runs. It stores them as the events of a datacenter.
func (h *history) fill(ctx context.Context, runs int) error {
	store, err := sqlstore.Open(ctx, h.ledger)
	if err != nil {
		return err
	}
	var batch []writ.Event
	add := func(e writ.Event) error {
		h.seq++
		e.Journal, e.Seq, e.Time = "bench", h.seq, h.began
		if batch = append(batch, e); len(batch) < historyBatch {
			return nil
		}
		err := store.StoreEvents(ctx, h.datacenter.ID, batch)
		batch = batch[:0]
		return err
	}
	for ; h.stored < runs && err == nil; h.stored++ {
		run, call := h.run(h.stored)
		if err = add(writ.Event{Run: &run}); err == nil {
			err = add(writ.Event{Call: &call})
		}
	}
	if err == nil && len(batch) > 0 {
		err = store.StoreEvents(ctx, h.datacenter.ID, batch)
	}
	return errors.Join(err, store.Close())
}

// run returns the n-th run of the history, and its call.
func (h *history) run(n int) (writ.Run, writ.Call) {
	payload := writ.DigestOf(fmt.Appendf(nil, "history %s %d", h.datacenter.ID, n))
	accepted := h.began.Add(-historySpan + time.Duration(float64(historySpan)*float64(n)/float64(h.total)))
	run := writ.Run{
		ID: writ.RunIDOf(payload), Datacenter: h.datacenter.ID, Project: h.owner.project.ID,
		ProjectName: h.owner.project.Name, Signer: fmt.Sprintf("signer-%d", n%historySigners),
		Script: fmt.Sprintf("web-%d.tengo", n%historyScripts), Deployment: fmt.Sprintf("deployment-%d", n%historyDeployments),
		Payload: payload, State: writ.RunSucceeded, Accepted: accepted, Started: accepted,
		Ended: accepted.Add(time.Second), Deadline: accepted.Add(time.Hour),
	}
	call := writ.Call{
		Run: run.ID, Seq: 1, Operation: "node.ping", Position: run.Script + ":1:3", State: writ.CallSucceeded,
		NodeName: "n1", Attempt: 1, Delivery: 1, Planned: accepted, Queued: accepted, Started: accepted,
		Ended: accepted.Add(time.Second),
	}
	if n%historyFailed == 1 {
		run.State, call.State = writ.RunFailed, writ.CallFailed
		run.Failure = &writ.Failure{Error: writ.Error{Code: writ.CodeNodeLost, Message: "the node was lost"}, Seq: 1}
	}
	return run, call
}

// lists measures the lists and pages of a coordinator.
func (h *history) lists(ctx context.Context, s *served) (all []ListReport, err error) {
	run, _ := h.run(h.stored / 2)
	words := map[string]string{
		"DATACENTER": string(h.datacenter.ID), "PROJECT": string(h.owner.project.ID), "RUN": string(run.ID),
	}
	for _, address := range historyAddresses {
		l := ListReport{Address: address}
		var times []time.Duration
		for range h.requests {
			begun := time.Now()
			if l.Bytes, err = get(ctx, s.client.Direct(), s.url+expand(address, words)); err != nil {
				return all, fmt.Errorf("%s: %w", address, err)
			}
			times = append(times, time.Since(begun))
			if sleep.For(ctx, askPause) != nil {
				return all, context.Cause(ctx)
			}
		}
		l.Time = spreadOf(times)
		all = append(all, l)
	}
	return all, nil
}

// historyAddresses are lists of the API, with 50 items a page, pages of the dashboard, and metrics. No run of signer-3
// or of web-7.tengo has failed.
var historyAddresses = []string{
	"/v1/runs?limit=50",
	"/v1/runs?limit=50&state=failed",
	"/v1/runs?limit=50&project=PROJECT",
	"/v1/runs?limit=50&datacenter=DATACENTER",
	"/v1/runs?limit=50&signer=signer-3",
	"/v1/runs?limit=50&script=web-7.tengo",
	"/v1/runs?limit=50&deployment=deployment-77",
	"/v1/runs?limit=50&project=PROJECT&state=failed",
	"/v1/runs?limit=50&datacenter=DATACENTER&state=failed",
	"/v1/runs?limit=50&signer=signer-3&state=failed",
	"/v1/runs?limit=50&script=web-7.tengo&state=failed",
	"/v1/runs?limit=50&script=web-7.tengo&signer=nobody",
	"/v1/runs?limit=50&project=PROJECT&signer=signer-3",
	"/v1/runs?limit=50&datacenter=DATACENTER&signer=nobody",
	"/v1/runs?limit=50&script=web-7.tengo&deployment=deployment-78",
	"/v1/runs?limit=50&text=web-7",
	"/v1/runs?limit=50&text=NODE_LOST",
	"/v1/runs?limit=50&text=nothing",
	"/v1/runs?limit=50&text=nothing&script=web-7.tengo",
	"/v1/runs/RUN",
	"/",
	"/?state=failed",
	"/?signer=signer-3",
	"/?script=web-7.tengo",
	"/?script=web-7.tengo&signer=signer-3",
	"/?datacenter=DATACENTER",
	"/?failure=NODE_LOST&since=2160h",
	"/?text=nothing",
	"/deployments",
	"/failures?since=2160h",
	"/failures?since=2160h&project=PROJECT",
	"/runs/RUN",
	"/runs/RUN/timeline",
	"/metrics",
}

// expand replaces the words of an address by ids.
func expand(address string, words map[string]string) string {
	for word, id := range words {
		address = strings.ReplaceAll(address, word, url.QueryEscape(id))
	}
	return address
}

// get requests an address and returns the size of its answer.
func get(ctx context.Context, by *http.Client, address string) (int, error) {
	ctx, stop := context.WithTimeout(ctx, listAnswer)
	defer stop()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return 0, err
	}
	response, err := by.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("the coordinator answers %s", response.Status)
	}
	return len(text), err
}

package boot

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"writ/efi/progress"
	"writ/internal/sleep"
)

// Bounds of what a boot server is told.
const (
	reportsWaiting = 32 // of more, the oldest are not told
	reportWithin   = 5 * time.Second
	reportFirst    = 2 * time.Second // after a failure; then twice as long, up to reportMost
	reportMost     = 30 * time.Second
	reportEnd      = 2 * time.Second // when the machine is turned off
)

// reports tells a boot server which stages the machine has reached, in their order. The machine never waits for that, and needs nothing of it. Who
// listens in that network reads the reports, so they have no secrets.
type reports struct {
	redact func(string) string

	mu      sync.Mutex
	waiting []progress.Report
	command string // digest of the settings on the command line, "" if it was not read yet
	running bool   // the runner was started: what is told from then on is about the node

	news  chan struct{} // has one if something waits
	ends  chan struct{} // closed when nothing more comes
	ended chan struct{} // closed when nothing more is told
}

func newReports(redact func(string) string) *reports {
	return &reports{redact: redact, news: make(chan struct{}, 1), ends: make(chan struct{}), ended: make(chan struct{})}
}

// ofNode are the stages of a machine whose runner was started. A lease that is renewed, or a clock that is corrected, then says nothing of the start.
var ofNode = []string{progress.StageRunner, progress.StageWaits, progress.StageApprove, progress.StageJoined, progress.StageOff}

// add adds a report. It may be called before there is a network.
func (r *reports) add(report progress.Report) {
	report.Text = r.redact(report.Text)
	report = report.Clean()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running && !slices.Contains(ofNode, report.Stage) {
		return
	}
	r.running = r.running || report.Stage == progress.StageRunner
	r.waiting = append(r.waiting, report)
	if len(r.waiting) > reportsWaiting {
		r.waiting = r.waiting[1:]
	}
	select {
	case r.news <- struct{}{}:
	default:
	}
}

// next takes the oldest report that waits.
func (r *reports) next() (report progress.Report, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) == 0 {
		return report, false
	}
	report, r.waiting = r.waiting[0], r.waiting[1:]
	report.Settings = r.command
	return report, true
}

// started notes the command line that the machine was started with.
func (r *reports) started(cmdline string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.command = progress.SettingsOf(cmdline)
}

// run tells what is added, until end or ctx ends.
func (r *reports) run(ctx context.Context, by http.RoundTripper, to string) {
	defer close(r.ended)
	client := &http.Client{Timeout: reportWithin, Transport: by, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for last := false; ; {
		for report, ok := r.next(); ok; report, ok = r.next() {
			if tell(ctx, client, to, report) != nil {
				return
			}
		}
		if last {
			return
		}
		select {
		case <-r.news:
		case <-r.ends:
			last = true
		case <-ctx.Done():
			return
		}
	}
}

// tell tells one report, as often as it takes until the boot server has it. One that the server refuses is as good as told. The error is that of ctx.
func tell(ctx context.Context, client *http.Client, to string, report progress.Report) error {
	for wait := reportFirst; ; wait = min(2*wait, reportMost) {
		status, err := post(ctx, client, to, report)
		if err == nil && status < http.StatusInternalServerError && status != http.StatusTooManyRequests {
			return nil
		}
		if err := sleep.For(ctx, wait); err != nil {
			return err
		}
	}
}

func post(ctx context.Context, client *http.Client, to string, report progress.Report) (status int, err error) {
	text, err := json.Marshal(report)
	if err != nil {
		return 0, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(text))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	_, _ = io.CopyN(io.Discard, answer.Body, progress.MaxBytes)
	return answer.StatusCode, nil
}

// end lets run tell what waits, for a moment. It is called once, also if run never was.
func (r *reports) end(cancel func()) {
	close(r.ends)
	late := time.AfterFunc(reportEnd, cancel)
	defer late.Stop()
	<-r.ended
}

// reportAddress returns the address of a boot server, if it can be one.
func reportAddress(text string) (string, error) {
	at, err := url.Parse(text)
	switch {
	case err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https":
		return "", errors.New("it is no address that begins with http:// or https://")
	case at.User != nil:
		return "", fmt.Errorf("it has a password, which others in the network can read")
	}
	return text, nil
}

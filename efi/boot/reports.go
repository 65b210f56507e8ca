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
	"writ/internal/outbound"
	"writ/internal/sleep"
	"writ/internal/wake"
)

// Limits and timeouts of reports to a boot server.
const (
	reportsWaiting = 32 // maximum number of queued reports; the oldest are dropped
	reportWithin   = 5 * time.Second
	reportFirst    = 2 * time.Second // delay after a failure; it doubles up to reportMost
	reportMost     = 30 * time.Second
	reportEnd      = 2 * time.Second // limit for sending the remaining reports at shutdown
)

// reports sends the stages of the machine to a boot server, in order. The machine does not depend on the server, and
// waits for it only at shutdown, for reportEnd. Other machines on the network can read the reports, so they contain no
// secrets.
type reports struct {
	redact func(string) string

	mu      sync.Mutex
	waiting []progress.Report
	command string // digest of the settings on the command line, "" before it is read
	running bool   // whether the runner has started: further reports are about the node

	news  wake.Signal   // signals a waiting report
	ends  chan struct{} // closed after the last report was added
	ended chan struct{} // closed when run has returned
}

func newReports(redact func(string) string) *reports {
	return &reports{redact: redact, news: wake.New(), ends: make(chan struct{}), ended: make(chan struct{})}
}

// ofNode lists the stages that are reported after the runner has started. Other reports, such as a renewed lease or a
// corrected clock, are then dropped.
var ofNode = []string{
	progress.StageRunner, progress.StageWaits, progress.StageApprove, progress.StageJoined, progress.StageOff,
}

// add queues a report. It may be called before the network is up.
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
	r.news.Raise()
}

// next removes and returns the oldest waiting report.
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

// started stores the digest of the kernel's command line.
func (r *reports) started(cmdline string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.command = progress.SettingsOf(cmdline)
}

// run sends queued reports until end is called or ctx ends.
func (r *reports) run(ctx context.Context, by http.RoundTripper, to string) {
	defer close(r.ended)
	client := reportClient(by)
	for last := false; ; {
		for report, ok := r.next(); ok; report, ok = r.next() {
			if deliver(ctx, client, to, report) != nil {
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

// reportClient returns a client for a boot server, which is not authenticated.
func reportClient(by http.RoundTripper) *http.Client {
	return &http.Client{
		Timeout: reportWithin, Transport: outbound.Final(by),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// deliver sends one report and retries until the boot server has received it. A rejected report counts as received. It
// returns an error only if ctx ends.
func deliver(ctx context.Context, client *http.Client, to string, report progress.Report) error {
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

// end lets run send the waiting reports for at most reportEnd. It must be called exactly once, after run has started.
func (r *reports) end(cancel func()) {
	close(r.ends)
	late := time.AfterFunc(reportEnd, cancel)
	defer late.Stop()
	<-r.ended
}

// reportAddress validates the URL of a boot server.
func reportAddress(text string) (string, error) {
	at, err := url.Parse(text)
	switch {
	case err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https":
		return "", errors.New("the address must begin with http:// or https://")
	case at.User != nil:
		return "", fmt.Errorf("the address contains a password, which others on the network can read")
	}
	return text, nil
}

package dashboard_test

import (
	"fmt"
	"html"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"writ"
)

var (
	attemptCells = regexp.MustCompile(`(?s)<tr[^>]*>(<td.*?)</tr>`)
	cell         = regexp.MustCompile(`<td[^>]*>(.*?)</td>`)
	tags         = regexp.MustCompile(`<[^>]*>`)
)

// attemptsOn returns the rows of the table of a timeline.
func attemptsOn(body string) (lines []string) {
	_, body, _ = strings.Cut(body, "<tbody>")
	for _, row := range attemptCells.FindAllStringSubmatch(body, -1) {
		var line []string
		for _, c := range cell.FindAllStringSubmatch(row[1], -1) {
			line = append(line, html.UnescapeString(tags.ReplaceAllString(c[1], "")))
		}
		lines = append(lines, strings.Join(line, " | "))
	}
	return lines
}

// retried stores a run with a call that succeeds at its third attempt on another node, like the events of a supervisor.
func retried(w *fixture, n int) writ.Run {
	run := w.submit(n, "retried.tengo", nil)
	run.State, run.Started = writ.RunRunning, run.Accepted
	at := func(s float64) time.Time { return run.Accepted.Add(time.Duration(s * float64(time.Second))) }
	busy := &writ.Error{Code: writ.CodeExecError, Message: "busy"}
	c := writ.Call{Operation: "machine.create", Name: "m", Attempt: 1, State: writ.CallPlanned, Planned: at(0)}
	tell := func(change func()) {
		change()
		w.run(run, c)
	}
	tell(func() { c.State, c.Queued, c.NodeName = writ.CallQueued, at(1), "n1" })
	tell(func() { c.State, c.Started = writ.CallRunning, at(2) })
	tell(func() { c.State, c.Ended, c.Error, c.Attempt = writ.CallPlanned, at(4), busy, 2 })
	tell(func() { c.State, c.Queued, c.NodeName = writ.CallQueued, at(6), "n2" })
	tell(func() { c.State, c.Started = writ.CallRunning, at(7) })
	tell(func() { c.State, c.Ended, c.Attempt = writ.CallPlanned, at(7.5), 3 })
	tell(func() { c.State, c.Queued = writ.CallQueued, at(9) })
	tell(func() { c.State, c.Started, c.Ended, c.Error = writ.CallSucceeded, at(9.5), at(12), nil })
	return run
}

// Each attempt of a call has its own row and bars, with the times from the events of its run.
//
// Promise: Operation: The timeline of a run shows each attempt of each call as bars and as a table, within 100 KB per
// page.
// How: Earlier attempts come from the events of the run, at most 5,000; bars differ without their colour.
// Also: TestBarsDifferWithoutTheirColour, TestTheTimelineOfALargeRunIsBounded.
func TestTimelineShowsEachAttempt(t *testing.T) {
	t.Parallel()
	w := open(t)
	run := retried(w, 1)
	body := w.page("/runs/" + string(run.ID) + "/timeline")
	want := []string{
		"1 | machine.create m | 1 | failed EXEC_ERROR | n1 | 0 ms | 1.0 s | 2.0 s | 2.0 s",
		"1 | machine.create m | 2 | failed EXEC_ERROR | n2 | 4.0 s | 6.0 s | 7.0 s | 500 ms",
		"1 | machine.create m | 3 | succeeded | n2 | 7.5 s | 9.0 s | 9.5 s | 2.5 s",
	}
	if got := attemptsOn(body); !slices.Equal(got, want) {
		t.Errorf("it says\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	var bars []string
	_, line, _ := strings.Cut(body, `aria-label="call 1">`)
	line, _, _ = strings.Cut(line, "</svg>")
	for _, m := range regexp.MustCompile(`class="b-([a-z]+)" x="(\d+)" width="(\d+)"`).FindAllStringSubmatch(line, -1) {
		bars = append(bars, strings.Join(m[1:], " "))
	}
	if want := []string{"planned 0 1000", "queued 1000 1000", "failed 2000 2000", "failed 2000 2000", "planned 4000 2000", "queued 6000 1000", "failed 7000 500",
		"failed 7000 500", "planned 7500 1500", "queued 9000 500", "succeeded 9500 2500"}; !slices.Equal(bars, want) {
		t.Errorf("the bars are %q", bars)
	}
	if strings.Contains(body, "Some attempts are missing") {
		t.Error("the page reports missing attempts")
	}
	w.silence()
	if body := w.page("/runs/" + string(run.ID) + "/timeline"); !strings.Contains(body, "Some attempts are missing") || len(attemptsOn(body)) != 1 {
		t.Error("the page does not report the deleted events")
	}
	wants(t, w.page("/runs/"+string(run.ID)), `href="/runs/`+string(run.ID)+`/timeline"`)
}

// The shape of a bar shows its state without its colour.
func TestBarsDifferWithoutTheirColour(t *testing.T) {
	t.Parallel()
	w := open(t)
	body := w.page("/runs/" + string(failedRun(w, 1, time.Now()).ID))
	forms := map[string]string{}
	for _, m := range regexp.MustCompile(`<rect class="b-([a-z]+)[^"]*"[^>]*?( y="[^>]*)/>`).FindAllStringSubmatch(body, -1) {
		if forms[m[2]] == "" {
			forms[m[2]] = m[1]
		}
		if forms[m[2]] != m[1] && forms[m[2]]+m[1] != "runningsucceeded" { // the state next to them distinguishes these
			t.Errorf("%s and %s have the same form: %s", forms[m[2]], m[1], m[2])
		}
	}
	if len(forms) < 4 {
		t.Errorf("got %d forms, want at least 4: %v", len(forms), forms)
	}
}

// A run of 2,000 calls with many attempts each has pages of at most 100 KB. Each attempt is on one of them.
func TestTheTimelineOfALargeRunIsBounded(t *testing.T) {
	t.Parallel()
	w := open(t)
	run := w.submit(1, "large.tengo", nil)
	run.State, run.Started = writ.RunRunning, run.Accepted
	var calls []writ.Call
	for n := range 2000 {
		c := call("machine.create", strings.Repeat("a-long-name-", 5)+fmt.Sprint(n), "a-node-with-a-long-name", "simulated", writ.CallSucceeded, run.Accepted, moments{0, 1, 2, 3})
		if n < 100 {
			c.Attempt = 1 + n%5
		}
		calls = append(calls, c)
	}
	for attempt := range 5 {
		early := slices.Clone(calls[:100])
		for i := range early {
			early[i].Attempt = min(attempt+1, early[i].Attempt)
		}
		w.run(run, early...)
	}
	w.run(run, calls...)
	next := regexp.MustCompile(`href="([^"]+)" rel="next"`)
	seen, biggest := map[string]bool{}, 0
	for at := "/runs/" + string(run.ID) + "/timeline"; at != ""; {
		body := w.page(at)
		biggest = max(biggest, len(body))
		for _, line := range attemptsOn(body) {
			seen[line] = true
		}
		at = ""
		if link := next.FindStringSubmatch(body); link != nil {
			at = html.UnescapeString(link[1])
		}
	}
	if biggest > 100_000 || len(seen) != 2000+20*(0+1+2+3+4) {
		t.Errorf("the biggest page has %d bytes, and %d attempts are shown", biggest, len(seen))
	}
	if body := w.page("/runs/" + string(run.ID)); len(body) > 100_000 {
		t.Errorf("the page of the run has %d bytes", len(body))
	}
}

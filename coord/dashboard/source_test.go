package dashboard_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/coord/api"
	"writ/identity"
	"writ/ledger"
)

// Promise: Operation: The page of a run marks the failing or waiting lines of its script live, within 100 KB.
// How: Positions of the failure and of open calls; a long script shows the lines around marks.
// Also: TestLongScriptIsShownAroundItsMarks.
func TestRunPageMarksTheFailedLine(t *testing.T) {
	t.Parallel()
	w := open(t)
	run := failedRun(w, 1, time.Now())
	body := w.page("/runs/" + string(run.ID))
	wants(t, body, `<tr data-key="0-31" id="line-0-31" class="at-failed">`, `href="#line-0-31"`, "failed here", `id="line-0-52" class="at-called"`, "needed here",
		"shop_31 := volume.create(&#34;shop-31&#34;, {size_gib: 31})", "replicas", `[&#34;gpu=h100&#34;,&#34;tier=gold&#34;]`, "volume/web-*", "machine.create, volume.create",
		"certificate release-17 of authority forge", `>revision 13</span>`)
	if n := strings.Count(body, `class="at-`); n != 2 {
		t.Errorf("%d lines are marked, not two", n)
	}
}

func TestRunPageMovesMarksOfOpenCallsLive(t *testing.T) {
	t.Parallel()
	w := open(t)
	run := runningRun(w, 1, time.Now())
	body := w.page("/runs/" + string(run.ID))
	wants(t, body, `id="line-0-16" class="at-running"`, `<a href="#call-4">call 4 is running</a>`, `id="line-0-19" class="at-queued"`, `id="line-0-22" class="at-planned"`,
		"call 4 (container.create web-1) is running on ams1-n3")
	frames(t, w, "/live/runs/"+string(run.ID), "", func(_, data string) bool {
		_, pieces, any := frameContent(t, data, "source")
		if row, changed := pieces["0-16"]; any && changed && len(pieces) == 1 && !strings.Contains(row, "at-running") {
			return true // the frame has this line and no other
		}
		w.store(run.Datacenter, writ.Event{Call: &writ.Call{Run: run.ID, Seq: 4, Operation: "container.create", Name: "web-1", Position: "web.tengo:16:6", State: writ.CallSucceeded}})
		return false
	})
}

func TestLongScriptIsShownAroundItsMarks(t *testing.T) {
	t.Parallel()
	w := open(t)
	long := func(n int, change func(run *writ.Run)) string {
		run := w.submit(n, "long.tengo", func(in *ledger.Incoming) {
			w.signs(in, numbered("long", 4000)+strings.Repeat("x", 5000)+"\n", map[string]any{"text": strings.Repeat("y", 60_000), "n": int64(n)},
				identity.File{Name: "lib.tengo", Text: []byte(numbered("lib", 900))})
		})
		run.State = writ.RunRunning
		change(&run)
		w.run(run)
		return w.page("/runs/" + string(run.ID))
	}
	body := long(1, func(run *writ.Run) {
		run.State, run.Ended = writ.RunFailed, time.Now()
		run.Failure = &writ.Failure{Error: *writ.Errorf(writ.CodeExecError, "no"), Position: "lib.tengo:700:3", Trace: []string{"long.tengo:3210:1", "long.tengo:4001:1"}}
	})
	wants(t, body, `id="line-1-700" class="at-failed"`, `id="line-0-3210" class="at-called"`, "3197 lines are left out", "long_3200 ", "(4760 more)", "(59002 more)")
	if len(body) > 100_000 || strings.Contains(body, "long_3000 ") {
		t.Errorf("the page has %d bytes", len(body))
	}
	if body := long(2, func(*writ.Run) {}); !strings.Contains(body, "long_37 ") || strings.Contains(body, "long_38 ") {
		t.Error("without marks a page does not show the beginning")
	}
}

// The text of a refused submission is pruned, and an invalid text is not shown.
func TestRunPageReportsMissingText(t *testing.T) {
	t.Parallel()
	w := open(t)
	run := w.submit(1, "gone.tengo", nil)
	wants(t, w.page("/runs/"+string(run.ID)), "The coordinator has no text of this run", "The run has not ended.")
	run = w.submit(2, "refused.tengo", func(in *ledger.Incoming) { w.signs(in, "secret_script := 1\n", map[string]any{}) })
	w.ok(w.ledger.Reject(t.Context(), run.Payload, writ.SubmissionRefused, writ.Errorf(writ.CodeRoleMissing, "no")))
	if body := w.page("/runs/" + string(run.ID)); strings.Contains(body, "secret_script") || strings.Contains(body, "/values") {
		t.Error("the text of a refused submission is shown, or values of a run that never was")
	}
}

func TestRunPageShowsTheSignedOutput(t *testing.T) {
	t.Parallel()
	w := open(t)
	run := w.submit(1, "out.tengo", nil)
	run.State, run.Ended, run.Summary = writ.RunSucceeded, time.Now(), []byte(`{"address": "10.0.0.7", "ports": [80, 443]}`)
	w.run(run)
	wants(t, w.page("/runs/"+string(run.ID)), "<code>address</code>", "&#34;10.0.0.7&#34;", "[80,443]", `href="/runs/`+string(run.ID)+`/values"`, "As the datacenter signed it")
	run.Summary = []byte("forged")
	w.run(run)
	wants(t, w.page("/runs/"+string(run.ID)), "The coordinator cannot show it")
}

// Only the two pages request values from a datacenter, and no stream does.
func TestValuesAndLogAreAskedForOnRequestOnly(t *testing.T) {
	t.Parallel()
	w := open(t)
	run := failedRun(w, 1, time.Now())
	for n := range 90 {
		w.values.Calls = append(w.values.Calls, api.CallValues{
			Call: writ.Call{Seq: n + 1, Operation: "volume.create", Name: fmt.Sprint("v", n+1), State: writ.CallSucceeded},
			Args: map[string]any{"size_gib": 10}, Values: map[string]any{"path": fmt.Sprint("/data/", n+1), "text": strings.Repeat("z", 9000)},
		})
	}
	for n := range 900 {
		w.lines = append(w.lines, writ.LogLine{Ordinal: n + 1, Text: fmt.Sprintf("line %d.", n+1), Time: time.Now()})
	}
	for n := range 200 { // each takes five bytes on the page
		w.lines[100+n].Text = strings.Repeat("<", 500)
	}
	path := "/runs/" + string(run.ID)
	w.page(path)
	frames(t, w, "/live"+path, "", func(string, string) bool { return true })
	if len(w.asked) > 0 {
		t.Fatal("the page of a run asks the datacenter for values")
	}
	for _, list := range []struct {
		path, first, second, last string
		pages                     int
	}{{path + "/values", "/data/40", "/data/41", "/data/90", 3}, {path + "/log", "line 100.", "line 301.", "line 900.", 8}} {
		next := regexp.MustCompile(`href="([^"]+)" rel="next"`)
		at := list.path
		for n := range list.pages {
			body := w.page(at)
			if len(body) > 100_000 || n == 0 && (!strings.Contains(body, list.first) || strings.Contains(body, list.second)) || n == list.pages-1 != strings.Contains(body, list.last) {
				t.Errorf("%s has %d bytes", at, len(body))
			}
			if link := next.FindStringSubmatch(body); link != nil {
				at = link[1]
			} else if n != list.pages-1 {
				t.Errorf("%s is the last page", at)
			}
		}
	}
	for _, bad := range []string{"/values?after-call=x", "/log?after-line=-1"} {
		if response, _ := w.get(path + bad); response.StatusCode != 400 {
			t.Errorf("%s: %s", bad, response.Status)
		}
	}
	if response, _ := w.get("/live" + path + "/values"); response.StatusCode != 404 {
		t.Errorf("values have a stream: %s", response.Status)
	}
}

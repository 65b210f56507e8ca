package dashboard_test

import (
	"fmt"
	"html"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/coord/dashboard/page"
	"writ/identity"
	"writ/ledger"
)

// silence prunes all events of the ledger: open runs have had no event since their submission.
func (w *fixture) silence() {
	w.ok(w.ledger.Prune(w.t.Context(), time.Now().Add(time.Hour), time.Time{}))
}

// stuckRuns stores stuck runs: three open ones of shop, a waiting one, and one of bank; and some others that are not
// stuck.
func stuckRuns(w *fixture) (oldest, waits, banks writ.Run) {
	old := func(n int, script string, age time.Duration, change func(in *ledger.Incoming)) writ.Run {
		return w.submit(n, script, func(in *ledger.Incoming) {
			in.Received = time.Now().Add(-age)
			if change != nil {
				change(in)
			}
		})
	}
	for n := range 3 {
		run := old(300+n, fmt.Sprintf("stuck-%d.tengo", n), time.Duration(3-n)*time.Hour, func(in *ledger.Incoming) {
			if n == 1 {
				in.Signer = "bob"
			}
		})
		run.State = writ.RunRunning
		w.run(run)
		if n == 0 {
			oldest = run
		}
	}
	waits = old(310, "waits.tengo", 10*time.Minute, func(in *ledger.Incoming) { in.Datacenter = fra })
	banks = old(311, "canary.tengo", 20*time.Minute, func(in *ledger.Incoming) { in.Project, in.ProjectName = bank, "ledger-bank" })
	banks.State = writ.RunAccepted
	w.run(banks)
	ended := old(312, "ended.tengo", 4*time.Hour, nil)
	ended.State, ended.Ended = writ.RunSucceeded, time.Now()
	w.run(ended)
	w.silence()
	age := 4 * time.Hour
	if w.ahead > 0 {
		age = -w.ahead
	}
	fresh := old(313, "fresh.tengo", age, nil)
	fresh.State = writ.RunRunning
	w.run(fresh)
	return oldest, waits, banks
}

var stuckScript = regexp.MustCompile(`data-open>([a-z0-9-]+)\.tengo<`)

// Promise: Operation: The dashboard lists silent or repeating open runs, the oldest first, with reason and commands.
// How: The selection equals `writ run list --stuck`; the reason equals the API's.
// Also: TestRunListsReadOnlyListedRuns.
func TestStuckRunsAreListedWithWhatHelps(t *testing.T) {
	t.Parallel()
	w := open(t)
	oldest, waits, banks := stuckRuns(w)
	for query, want := range map[string][]string{
		"":                           {"stuck-0", "stuck-1", "stuck-2", "canary", "waits"},
		"?for=15m":                   {"stuck-0", "stuck-1", "stuck-2", "canary"},
		"?for=90m":                   {"stuck-0", "stuck-1"},
		"?for=24h":                   nil,
		"?project=" + string(bank):   {"canary"},
		"?datacenter=" + string(fra): {"waits"},
		"?signer=bob":                {"stuck-1"},
	} {
		body := w.page("/stuck" + query)
		var got []string
		for _, m := range stuckScript.FindAllStringSubmatch(body, -1) {
			got = append(got, m[1])
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q lists %v, want %v", query, got, want)
		}
		runs := "open runs"
		if len(want) == 1 {
			runs = "open run"
		}
		wants(t, body, fmt.Sprintf("%d %s without an event", len(want), runs))
	}
	body := w.page("/stuck")
	wants(t, body, "writ run explain "+string(oldest.ID), "writ run cancel "+string(oldest.ID), "writ run cancel "+string(banks.ID), "writ run explain "+string(waits.ID),
		"it expires by itself", "waits for the datacenter fra1 to connect", "call 4 (container.create web-1) is running on ams1-n3")
	if strings.Contains(body, "writ run cancel "+string(waits.ID)) {
		t.Error("a run that its datacenter does not have can be cancelled")
	}
	w.readAs(page.Reader{All: true, May: func(action identity.Action, project writ.ProjectID) bool { return project == bank }})
	if body := w.page("/stuck"); strings.Contains(body, "writ run cancel "+string(oldest.ID)) || !strings.Contains(body, "writ run cancel "+string(banks.ID)) {
		t.Error("commands are not offered by role")
	}
	w.readAs(page.Reader{All: true})
	w.onHold()
	w.because(oldest.ID, heldBy("alice", "ams1", "web-shop"))
	w.because(banks.ID, writ.Reason{Code: writ.ReasonNode, Node: "ams1-n1", State: "silent"})
	w.because(waits.ID, writ.Reason{Code: writ.ReasonNoNode, Nodes: []writ.NodesReason{
		{Names: []string{"fra1-n1"}, Code: writ.VerdictClosed, Text: "is cordoned"},
	}})
	const release, show, uncordon = `data-copy="writ release --dc ams1 --project web-shop"`, `data-copy="writ node show ams1-n1 --dc ams1"`, `data-copy="writ node uncordon fra1-n1 --dc fra1"`
	row := func(run writ.Run) string {
		_, row, _ := strings.Cut(w.page("/stuck"), `<tr data-key="`+string(run.ID)+`"`)
		row, _, _ = strings.Cut(row, "</tr>")
		return row
	}
	for _, allowed := range []bool{true, false} {
		w.readAs(page.Reader{All: allowed, Projects: []writ.ProjectID{shop, bank}, May: func(identity.Action, writ.ProjectID) bool { return allowed }})
		for command, run := range map[string]writ.Run{release: oldest, show: banks, uncordon: waits} {
			if strings.Contains(row(run), command) != allowed {
				t.Errorf("command %s: reader has the right: %v, want it exactly then", command, allowed)
			}
		}
		if page := w.page("/runs/" + string(oldest.ID)); strings.Contains(page, release) != allowed {
			t.Errorf("the page of the run offers its release: %v", allowed)
		}
	}
	for _, bad := range []string{"?for=x", "?for=0s", "?for=-1h", "?for=999999h"} {
		if response, _ := w.get("/stuck" + bad); response.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %s", bad, response.Status)
		}
	}
}

func TestStuckRunOffersLostNodeByRole(t *testing.T) {
	t.Parallel()
	w := open(t)
	run, _, _ := stuckRuns(w)
	w.because(run.ID, writ.Reason{Code: writ.ReasonNode, Node: "ams1-n1", State: "lost"})
	const lost, show, does = `data-copy="writ node lost ams1-n1 --dc ams1"`, `data-copy="writ node show ams1-n1 --dc ams1"`, "if the machine never comes back: declares it lost"
	for _, admits := range []bool{true, false} {
		w.readAs(page.Reader{All: true, May: func(action identity.Action, _ writ.ProjectID) bool {
			return admits || action != identity.ActionAdmitNodes
		}})
		for _, page := range []string{"/stuck", "/runs/" + string(run.ID)} {
			body := w.page(page)
			if strings.Contains(body, lost) != admits || strings.Contains(body, does) != admits || strings.Contains(body, show) == admits {
				t.Errorf("%s, reader admits nodes: %v: wrong command for the role", page, admits)
			}
		}
	}
}

var numberOnTile = regexp.MustCompile(`<a class="count s-([a-z]+)[^"]*" href="([^"]*)"[^>]*><b>(\d+)</b>`)

// Each number on the overview is the count of the linked list, with any filter and for any reader.
//
// Promise: Operation: Each number of runs or resources on the dashboard equals the length of its linked list, with
// any filter and for any reader.
// How: One filter counts and lists.
// Also: TestNumbersOfResourcesAreThoseOfTheirLists, TestFailuresAreGroupedAndLeadToTheirRuns.
func TestNumbersAreThoseOfTheListsBehindThem(t *testing.T) {
	t.Parallel()
	w := open(t)
	fill(w)
	stuckRuns(w)
	rows := regexp.MustCompile(`<tr data-key="[a-z2-7]{26}"`)
	next := regexp.MustCompile(`href="([^"]+)" rel="next"`)
	for name, reader := range map[string]page.Reader{"all": {All: true}, "shop": ofShop} {
		w.readAs(reader)
		for _, query := range []string{"", "?project=" + string(shop), "?datacenter=" + string(gent), "?signer=bob", "?signer=bob&datacenter=" + string(ams), "?datacenter=" + string(fra)} {
			tiles := numberOnTile.FindAllStringSubmatch(w.page("/"+query), -1)
			if len(tiles) != len(ledger.States)+1 {
				t.Fatalf("%s %q has %d numbers", name, query, len(tiles))
			}
			for _, tile := range tiles {
				listed := 0
				for at := html.UnescapeString(tile[2]); at != ""; {
					body := w.page(at)
					listed += len(rows.FindAllString(body, -1))
					at = ""
					if link := next.FindStringSubmatch(body); link != nil {
						at = html.UnescapeString(link[1])
					}
				}
				if fmt.Sprint(listed) != tile[3] {
					t.Errorf("%s %q: tile shows %s runs %s, %s lists %d", name, query, tile[3], tile[1], tile[2], listed)
				}
			}
		}
	}
}

// A live page has the numbers of its filter, too, and another reader of the same address gets other numbers.
func TestLiveNumbersAreThoseOfTheFilterAndTheReader(t *testing.T) {
	t.Parallel()
	w := open(t)
	fill(w)
	for range 2 { // cached the second time
		for name, reader := range map[string]page.Reader{"all": {All: true}, "shop": ofShop} {
			w.readAs(reader)
			tile := regexp.MustCompile(`s-succeeded[^>]*><b>(\d+)</b>`)
			want := tile.FindStringSubmatch(w.page("/?datacenter=" + string(ams)))
			frames(t, w, "/live/?datacenter="+string(ams), "", func(_, data string) bool {
				_, pieces, any := frameContent(t, data, "counts")
				if got := tile.FindStringSubmatch(pieces["succeeded"]); any && (got == nil || got[1] != want[1]) {
					t.Errorf("%s: frame = %v, page = %v", name, got, want)
				}
				return any
			})
		}
	}
}

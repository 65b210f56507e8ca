package dashboard_test

import (
	"fmt"
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"writ"
	"writ/coord/dashboard/page"
	"writ/identity"
	"writ/internal/test/testenv"
)

var secretLine = regexp.MustCompile(`(?s)<tr>(<td.*?)</tr>`)

// secretsOn returns the rows of the list of secrets on all of its pages, without times.
func secretsOn(w *fixture, address string) (lines []string) {
	w.t.Helper()
	for address != "" {
		body := w.page(address)
		if len(body) > 100_000 {
			w.t.Errorf("%s has %d bytes", address, len(body))
		}
		for _, row := range secretLine.FindAllStringSubmatch(body, -1) {
			var line []string
			for _, c := range cell.FindAllStringSubmatch(row[1], 5) {
				text, _, _ := strings.Cut(tags.ReplaceAllString(c[1], ""), " 20")
				line = append(line, text)
			}
			lines = append(lines, strings.Join(line, " | "))
		}
		address = ""
		if link := nextPage.FindStringSubmatch(body); link != nil {
			address = html.UnescapeString(link[1])
		}
	}
	return lines
}

var nextPage = regexp.MustCompile(`href="([^"]+)" rel="next"`)

// Promise: Operation: The dashboard lists secrets by name and version, never by value, to the readers of `writ secret
// list`.
// How: The scope of the API; datacenters are asked, and they answer without values.
// Also: TestProjectReaderSeesNoOtherProject, TestEveryRoleAtEveryRoute.
func TestSecretListHasVersionsWithoutValues(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.keepsSecrets()
	const canary = "ledger-bank | ams1 | eve"
	for query, want := range map[string]string{
		"":                            "canary-secret | 1 | " + canary + "\napi-key | 1 | web-shop | ams1 | alice\ndb-password | 2 | web-shop | ams1 | ci-release\ndb-password | 1 removed | web-shop | ams1 | alice",
		"?project=" + string(bank):    "canary-secret | 1 | " + canary,
		"?datacenter=" + string(gent): "",
	} {
		if got := strings.Join(secretsOn(w, "/secrets"+query), "\n"); got != want {
			t.Errorf("%q lists\n%s\nwant\n%s", query, got, want)
		}
	}
	wants(t, w.page("/secrets"), "4 versions", "fra1 did not list its secrets: the datacenter fra1 is not connected", "writ secret list")
	for _, may := range []bool{true, false} {
		w.readAs(page.Reader{All: true, May: func(action identity.Action, project writ.ProjectID) bool {
			return may && action == identity.ActionManageSecrets && project == shop
		}})
		if strings.Contains(w.page("/secrets?project="+string(shop)), "writ secret set NAME --project web-shop") != may {
			t.Errorf("may set secrets: %v; want the command exactly then", may)
		}
	}
	w.kept[0].Secrets = nil
	for n := range 250 {
		w.kept[0].Secrets = append(w.kept[0].Secrets, writ.Secret{Project: shop, Name: fmt.Sprintf("a-secret-with-a-long-name-%03d", n), Version: 1})
	}
	if got := secretsOn(w, "/secrets"); len(got) != 250 || !strings.Contains(got[249], "249") {
		t.Errorf("%d of 250 are on pages", len(got))
	}
	if response, _ := w.get("/secrets?after-secret=x"); response.StatusCode != http.StatusBadRequest {
		t.Errorf("a wrong place in the list: %s", response.Status)
	}
}

// Each number of resources is the count of the linked list, and the sums match its rows.
//
// Promise: Operation: The dashboard sums usage by project and month, and each number equals the count of its linked
// list.
// How: One filter sums and lists.
// Also: TestUsageOfAMonthSortsNothing.
func TestUsageIsSummedByProjectAndMonth(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.used()
	number := regexp.MustCompile(`<tr data-project="([^"]*)">.*?data-label="resources"><a class="soft" href="([^"]+)">(\d+)</a></td><td class="n" data-label="CPU hours">([\d.]+)<`)
	line := regexp.MustCompile(`<tr data-resource[^>]*>.*?data-label="CPU hours">([\d.]+)<`)
	for month, want := range map[string]map[writ.ProjectID]string{
		"2026-03": {shop: "60", bank: "1"}, "2026-04": {shop: "1"}, "all": {shop: "62", bank: "1"}, "": {shop: "1"}, "2020-01": {},
	} {
		rows := number.FindAllStringSubmatch(w.page("/usage?month="+month), -1)
		if len(rows) != len(want) {
			t.Errorf("%q: %d projects, want %d", month, len(rows), len(want))
		}
		for _, row := range rows {
			listed, hours := 0, 0.0
			for at := html.UnescapeString(row[2]); at != ""; {
				body := w.page(at)
				for _, l := range line.FindAllStringSubmatch(body, -1) {
					var h float64
					_, err := fmt.Sscan(l[1], &h)
					w.ok(err)
					listed, hours = listed+1, hours+h
				}
				at = ""
				if link := nextPage.FindStringSubmatch(body); link != nil {
					at = html.UnescapeString(link[1])
				}
			}
			if fmt.Sprint(listed) != row[3] || row[3] != want[writ.ProjectID(row[1])] || fmt.Sprintf("%.2f", hours) != row[4] {
				t.Errorf("%q: project %s has %s resources and %s hours, its list has %d and %.2f", month, row[1], row[3], row[4], listed, hours)
			}
		}
	}
	wants(t, w.page("/usage?month=2026-03"), "writ usage --month 2026-03 --by project")
	// Another project has the same name.
	wants(t, w.page("/usage?month=all&project="+string(bank)), html.EscapeString(`writ usage --month "" --project `+string(bank)))
	wants(t, w.page("/usage?month=all&project="+string(shop)), html.EscapeString(`writ usage --month "" --project web-shop`), "62 resources")
	if response, body := w.get("/usage?month=soon"); response.StatusCode != http.StatusBadRequest || !testenv.Mentions(body, "month", "soon") {
		t.Errorf("invalid month: %s", response.Status)
	}
}

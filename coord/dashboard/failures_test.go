package dashboard_test

import (
	"fmt"
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/coord/dashboard/page"
	"writ/ledger"
)

var failureLine = regexp.MustCompile(`(?s)<a href="([^"]+)" data-open>(\d+)</a></td>\s*<td class="sc"><code class="name">([A-Z_]+)</code></td>\s*<td data-label="in">(?:<code>([a-z.]+)</code>)?`)

func TestFailuresAreGroupedAndLeadToTheirRuns(t *testing.T) {
	t.Parallel()
	w := open(t)
	fill(w)
	for n := range 70 {
		run := w.submit(400+n, "big.tengo", func(in *ledger.Incoming) {
			if in.Received = time.Now().Add(-time.Minute); n%7 == 0 {
				in.Project, in.ProjectName, in.Signer = bank, "ledger-bank", "eve"
			}
		})
		operation := "machine.create"
		if n%7 == 0 {
			operation = "canary.create"
		}
		run.State, run.Ended, run.Failure = writ.RunFailed, time.Now(), &writ.Failure{Error: *writ.Errorf(writ.CodeNoCapacity, "no"), Seq: 1}
		w.run(run, writ.Call{Operation: operation, State: writ.CallFailed, Attempt: 1})
	}
	rows := regexp.MustCompile(`<tr data-key="[a-z2-7]{26}"`)
	next := regexp.MustCompile(`href="([^"]+)" rel="next"`)
	for name, reader := range map[string]page.Reader{"all": {All: true}, "shop": ofShop} {
		w.readAs(reader)
		for query, first := range map[string]string{
			"": "NO_CAPACITY machine.create", "?since=1h&project=" + string(shop): "NO_CAPACITY machine.create", "?datacenter=" + string(fra): "", "?since=1h&signer=ci-release": "NODE_LOST volume.create",
			"?since=2160h": "NO_CAPACITY machine.create", "?signer=nobody": "",
		} {
			body := w.page("/failures" + query)
			lines := failureLine.FindAllStringSubmatch(body, -1)
			if first == "" != (len(lines) == 0) || first != "" && lines[0][3]+" "+lines[0][4] != first {
				t.Errorf("%s %q begins with %v", name, query, lines)
			}
			for _, line := range lines {
				listed := 0
				for at := html.UnescapeString(line[1]); at != ""; {
					list := w.page(at)
					listed += len(rows.FindAllString(list, -1))
					at = ""
					if link := next.FindStringSubmatch(list); link != nil {
						at = html.UnescapeString(link[1])
					}
				}
				if fmt.Sprint(listed) != line[2] {
					t.Errorf("%s %q: %s of %s %s, and %s lists %d", name, query, line[2], line[3], line[4], line[1], listed)
				}
			}
			if !reader.All && strings.Contains(body, "canary") {
				t.Errorf("%s %q shows another project", name, query)
			}
		}
	}
	wants(t, w.page("/failures"), "writ explain NO_CAPACITY", "No ready and open node", "DESTRUCTIVE_DENIED", "no call")
	wants(t, w.page("/?failure=NO_CAPACITY&operation=machine.create&since=24h"), "that ended with NO_CAPACITY in machine.create, the last 24 hours", `name="failure" value="NO_CAPACITY"`)
	for _, bad := range []string{"/failures?since=x", "/?since=-1h", "/stuck?since=9999999h"} {
		if response, _ := w.get(bad); response.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %s", bad, response.Status)
		}
	}
	w.readAs(ofShop)
	frames(t, w, "/live/failures", "", func(_, data string) bool {
		if strings.Contains(data, "canary") {
			t.Errorf("frame = %s", data)
		}
		return true
	})
	w.readAs(page.Reader{})
	if response, _ := w.get("/failures"); response.StatusCode < 400 {
		t.Errorf("reader without rights: %s", response.Status)
	}
}

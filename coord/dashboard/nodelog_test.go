package dashboard_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/coord/api"
	"writ/coord/dashboard/page"
	"writ/identity"
)

func TestTheLogOfANodeIsAPage(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.store(ams, writ.Event{Node: &writ.Node{ID: "n1", Datacenter: ams, Name: "n1", Admission: writ.AdmissionApproved, Scheduling: writ.SchedulingOpen, Liveness: writ.LivenessReady}})
	log := api.NodeLog{Boot: "b2"}
	for i := range 60 {
		log.Lines = append(log.Lines, api.NodeLine{Time: time.Now(), Boot: "b2", Source: "runner", Level: "info", Text: fmt.Sprintf("line %d.", i)})
	}
	log.Lines[30] = api.NodeLine{Time: time.Now(), Boot: "b1", Source: "kernel", Level: "error", Text: "the disk \u202efails"}
	w.mu.Lock()
	w.log = log
	w.mu.Unlock()
	path := "/nodes/" + string(ams) + "/n1"
	if body := w.page(path); !strings.Contains(body, `href="`+path+`/log"`) {
		t.Error("the page of the node has no link to its log")
	}
	body := w.page(path + "/log")
	for _, want := range []string{"line 10.", "line 59.", "ERROR (earlier start) the disk ", "writ node logs n1 --follow", `href="` + path + `"`} {
		if !strings.Contains(body, want) {
			t.Errorf("the page does not have %q", want)
		}
	}
	if strings.Contains(body, "line 9.") || strings.Contains(body, "\u202e") || strings.Contains(body, "told last") {
		t.Error("the page has more than it should")
	}
	if asked := w.askedLogs; len(asked) != 1 || asked[0].Node != "n1" || asked[0].Lines != 50 {
		t.Errorf("the datacenter was asked %+v", asked)
	}
	w.mu.Lock()
	w.log = api.NodeLog{Away: "is lost", Told: time.Now().Add(-4 * time.Minute)}
	w.reader = page.Reader{All: true, May: func(identity.Action, writ.ProjectID) bool { return false }}
	w.mu.Unlock()
	if body := w.page(path + "/log"); !strings.Contains(body, "The node is lost. These are its last reported warnings") || !strings.Contains(body, "There are no lines.") {
		t.Errorf("page of a lost node:\n%s", body)
	}
	if body := w.page(path); strings.Contains(body, "/log") {
		t.Error("a reader without the right gets a link to the log")
	}
	if response, _ := w.get("/nodes/" + string(ams) + "/n2/log"); response.StatusCode != http.StatusNotFound {
		t.Errorf("of no node: %s", response.Status)
	}
}

package services

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/revision"
	"writ/coord/api"
)

// assessorOf returns an assessor of resources, some of them on an unheard node.
func assessorOf(connected bool, resources ...api.ListedResource) *assessor {
	a := &assessor{
		deployment: revision.Deployment{Project: "p", ProjectName: "shop", Datacenter: "d", Name: "web"},
		datacenter: api.Datacenter{ID: "d", Name: "dc1", Health: api.DatacenterHealthAway},
		status: &status{
			Resources: resources, Run: &api.Run{State: api.RunStateSucceeded, Script: "web.tengo", ProjectName: "shop", Deployment: "web"},
		},
	}
	if connected {
		a.datacenter.Health = api.DatacenterHealthHealthy
	}
	return a
}

func resource(name string, node writ.NodeID, state api.UnheardState, drift ...string) api.ListedResource {
	r := api.ListedResource{Resource: writ.Resource{
		ResourceID: writ.ResourceID{Kind: writ.KindVolume, Name: name}, Node: node, Standing: writ.Standing{State: "ready"}, Drift: drift,
	}}
	if state != "" {
		r.Unheard = &api.Unheard{State: state, Since: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	}
	return r
}

func problemsText(a *assessor) string {
	var b strings.Builder
	for _, p := range a.status.Problems {
		b.WriteString(p.About + " " + p.What + "; next: " + p.Next + "\n")
	}
	return b.String()
}

func TestUnheardNodeIsOneProblem(t *testing.T) {
	t.Parallel()
	silent, lost := api.UnheardStateSilent, api.UnheardStateLost
	since := cli.Clock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	all := []api.ListedResource{resource("a", "n", silent), resource("b", "m", ""), resource("c", "n", silent), resource("d", "o", lost)}
	a := assessorOf(true, all...)
	a.nodes = map[writ.NodeID]writ.Node{"n": {ID: "n", Name: "n1"}, "m": {ID: "m", Name: "n2"}, "o": {ID: "o", Name: "n3"}}
	a.assessResources()
	want := "node n1 is silent since " + since + ", so the state of 2 resources is outdated; next: writ node show n1 --dc dc1\n" +
		"node n3 is lost since " + since + ", so the state of 1 resource is outdated; next: writ node lost n3 --dc dc1\n"
	if got := problemsText(a); got != want {
		t.Errorf("it says\n%swant\n%s", got, want)
	}
	if got := a.verdict(); got != verdictUnknown {
		t.Errorf("the verdict is %s", got)
	}

	// A reader of one project sees no nodes.
	a = assessorOf(true, all[0])
	a.assessResources()
	if got, want := problemsText(a), "the node of volume/a is silent since "+since+", so the state of 1 resource is outdated; next: \n"; got != want {
		t.Errorf("problems without nodes = %q, want %q", got, want)
	}
}

func TestDriftIsMendedBySubmission(t *testing.T) {
	t.Parallel()
	a := assessorOf(true, resource("a", "n", "", "it has 2 GiB"), resource("b", "n", ""))
	a.assessResources()
	want := "volume/a differs from its request: it has 2 GiB; next: writ submit web.tengo --project shop --dc dc1 --deployment web\n"
	if got := problemsText(a); got != want || a.verdict() != verdictWrong {
		t.Errorf("it says\n%swant\n%s", got, want)
	}
}

// A screen shows the troubled resources first if there are many resources.
func TestStatusFitsOneScreen(t *testing.T) {
	t.Parallel()
	var all []api.ListedResource
	for n := range 100 {
		all = append(all, resource(fmt.Sprintf("good%d", n), "n", ""))
	}
	all = append(all, resource("bad", "n", "", "it has 2 GiB"), resource("silent", "n", api.UnheardStateSilent))
	s := &status{Deployment: "web", Project: "shop", Datacenter: "dc1", Verdict: verdictWrong, Resources: all}
	for range 15 {
		s.Problems = append(s.Problems, problem{About: "volume/bad", What: "is bad", Next: "writ fix"})
	}
	text := statusText(s, false)
	if lines := strings.Count(text, "\n"); lines > 50 {
		t.Errorf("it has %d lines", lines)
	}
	for _, want := range []string{"volume  bad ", "volume  silent ", "\nand 82 more: writ resource list --deployment web --project shop --dc dc1\n", "\nand 5 more problems: `-o json` lists all\n", "15 problems"} {
		if !strings.Contains(text, want) {
			t.Errorf("it lacks %q:\n%s", want, text)
		}
	}
	if s.Resources[0].Name != "good0" {
		t.Error("the order of the JSON form changed")
	}
}

func TestVerdictOfStatus(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(a *assessor)
		want   string
	}{
		"Well":      {func(*assessor) {}, verdictWell},
		"NoRun":     {func(a *assessor) { a.status.Run = nil }, verdictWell},
		"Running":   {func(a *assessor) { a.status.Run.State = api.RunStateRunning }, verdictChanging},
		"Waiting":   {func(a *assessor) { a.status.Submission = &api.Run{State: api.RunStateWaiting} }, verdictChanging},
		"Refused":   {func(a *assessor) { a.status.Submission = &api.Run{State: api.RunStateRefused} }, verdictWell},
		"Outdated":  {func(a *assessor) { a.add(problem{outdated: true}) }, verdictUnknown},
		"Wrong":     {func(a *assessor) { a.add(problem{}); a.add(problem{outdated: true}) }, verdictWrong},
		"WrongLast": {func(a *assessor) { a.add(problem{outdated: true}); a.add(problem{}) }, verdictWrong},
	} {
		a := assessorOf(true)
		tt.change(a)
		if got := a.verdict(); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

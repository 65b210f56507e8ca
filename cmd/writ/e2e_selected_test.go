package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"writ"
	"writ/cmd/writ/internal/test/testcluster"
	"writ/coord/api"
	"writ/internal/test/testenv"
)

// A coordinator shows an open run of the deployment shop as one of the deployment web, or under another signer. The
// statement that cancels the runs names scripts and project, which are equal.
//
// Promise: Signatures and rosters: A coordinator cannot add a run of another deployment or signer to the runs that a
// command cancels or resumes together.
// How: If a user selects runs by deployment or signer, the client reads both in the signed text of each run, and the id
// of a run is the digest of its text.
func TestCoordinatorCannotAddRunOfOthers(t *testing.T) {
	t.Parallel()
	s := testcluster.New(t)
	s.Add(testcluster.Datacenter{Name: "dc1", Redis: testenv.Redis(t).URL, Nodes: 0, Speed: "0"})
	s.Script("wait.tengo", "volume := import(\"volume\")\nvolume.create(\"data\", {size_gib: 1})\n")
	submit := func(deployment string) writ.RunID {
		id := writ.RunID(strings.TrimSpace(s.Writ("submit", "wait.tengo", "--deployment", deployment, "--detach", "-o", "name")))
		s.Until("run "+string(id)+" is open", func(ctx context.Context) bool {
			run, err := s.Client.Runs.Get(ctx, id)
			return err == nil && run.State == api.RunStateRunning
		})
		return id
	}
	web, shop := submit("web"), submit("shop")
	theRun := func(id writ.RunID) api.Run {
		t.Helper()
		run, err := s.Client.Runs.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
	signer := theRun(web).Signer
	l := newLiar(t, s.URL)
	s.AlsoAt(l.URL)
	text, err := json.Marshal(theRun(shop))
	if err != nil {
		t.Fatal(err)
	}
	shows := func(field, value string) func(string, any) any { // as the newest run of each list
		return func(path string, answer any) any {
			page, _ := answer.(map[string]any)
			if items, is := page["items"].([]any); is && path == "/v1/runs" {
				var run map[string]any
				if err := json.Unmarshal(text, &run); err != nil {
					t.Error(err)
				}
				run[field] = value
				page["items"] = append([]any{run}, items...)
			}
			return answer
		}
	}
	for name, tt := range map[string]struct {
		lie  func(string, any) any
		args []string
	}{
		"cancel by deployment":    {shows("deployment", "web"), []string{"run", "cancel", "--all", "--deployment", "web"}},
		"cancel by signer":        {shows("signer", "mallory"), []string{"run", "cancel", "--all", "--signer", "mallory"}},
		"cancel another's run":    {shows("deployment", "web"), []string{"run", "cancel", "--all", "--deployment", "web", "--signer", signer}},
		"destroy with its runs":   {shows("deployment", "web"), []string{"deployment", "destroy", "web", "--cancel-runs"}},
		"destroy of a fresh name": {shows("deployment", "new"), []string{"deployment", "destroy", "new", "--cancel-runs"}},
	} {
		l.lies(tt.lie)
		_, said, code := s.Try(append(tt.args, "--yes", "--server", l.URL)...)
		l.lies(nil)
		if code != writ.ExitUnverified || !strings.Contains(said, string(shop)) {
			t.Errorf("%s: exit %d\n%s", name, code, said)
		}
		if a, b := theRun(web).State, theRun(shop).State; a != api.RunStateRunning || b != api.RunStateRunning {
			t.Fatalf("%s: the runs are %s and %s", name, a, b)
		}
	}
	if _, said, code := s.Try("run", "cancel", "--all", "--deployment", "web", "--signer", signer, "--yes", "--server", l.URL); code != 0 {
		t.Errorf("without a lie: exit %d\n%s", code, said)
	}
	s.Until("the run of the deployment is cancelled", func(context.Context) bool { return theRun(web).State == api.RunStateCancelled })
	if got := theRun(shop).State; got != api.RunStateRunning {
		t.Errorf("the run of the other deployment is %s", got)
	}
}

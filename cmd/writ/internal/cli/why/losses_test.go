package why

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/coord/api"
)

func TestLossesNameEachDeploymentOnce(t *testing.T) {
	t.Parallel()
	now := time.Now()
	run := func(id writ.RunID, deployment string, age time.Duration) api.Run {
		return api.Run{ID: id, Project: "p", ProjectName: "shop", Deployment: deployment, Created: now.Add(-age)}
	}
	var got []writ.RunID
	for _, r := range newestByDeployment([]api.Run{
		run("old", "web", time.Hour), run("b", "", time.Minute), run("new", "web", time.Minute), run("a", "", time.Hour), run("b", "", time.Minute), run("db", "db", 0),
	}) {
		got = append(got, r.ID)
	}
	if diff := cmp.Diff([]writ.RunID{"b", "a", "db", "new"}, got); diff != "" {
		t.Errorf("runs to submit again (-want +got):\n%s", diff)
	}
	owners := ownersOf([]writ.Resource{
		{ResourceID: writ.ResourceID{Project: "p"}, Deployment: "web", Run: "old"}, {ResourceID: writ.ResourceID{Project: "p"}, Deployment: "web", Run: "new"},
		{ResourceID: writ.ResourceID{Project: "p"}, Run: "a"},
	})
	if diff := cmp.Diff([]owner{{"p", "web", ""}, {"p", "", "a"}}, owners, cmp.AllowUnexported(owner{})); diff != "" {
		t.Errorf("owners (-want +got):\n%s", diff)
	}
}

func TestRunFailedWithLostNode(t *testing.T) {
	t.Parallel()
	lost := writ.Errorf(writ.CodeNodeLost, "n10 is lost")
	lost.Node = "n1"
	if run := (api.Run{Failure: &writ.Failure{Error: *lost}}); !failedWith(run, "n1") || failedWith(run, "n10") {
		t.Error("failedWith does not match the node of the failure")
	}
	if failedWith(api.Run{Failure: &writ.Failure{Error: *writ.Errorf(writ.CodeDriverFailed, "n1 broke")}}, "n1") || failedWith(api.Run{}, "n1") {
		t.Error("a run with another failure counts")
	}
}

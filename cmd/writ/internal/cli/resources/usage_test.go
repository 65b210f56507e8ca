package resources

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/coord/api"
	"writ/identity"
)

func TestOnlyAllOfTheTimeIsShownAsAHundredPercent(t *testing.T) {
	for want, o := range map[string]writ.Online{
		"100 %": {Seconds: 7, Of: 7}, "99.99 %": {Seconds: 999_999, Of: 1_000_000}, "50.00 %": {Seconds: 1, Of: 2}, "0.00 %": {Of: 9},
	} {
		if got := cli.OnlineShare(o); got != want {
			t.Errorf("%+v is shown as %q, want %q", o, got, want)
		}
	}
}

func TestUsageIsAddedUpByProjectAndTenant(t *testing.T) {
	use := func(tenant, project string, cpu, received int64) api.Usage {
		return api.Usage{Tenant: tenant, Project: writ.ProjectID(project), ProjectName: "the " + project, CPUSeconds: cpu, Received: received}
	}
	usage := []api.Usage{use("acme", "shop", 10, 1), use("", "lab", 7, 0), use("acme", "shop", 20, 2), use("acme", "wiki", 5, 4)}
	sum := func(tenant, project string, n int, cpu, received int64) usageSum {
		s := usageSum{Tenant: tenant, Project: writ.ProjectID(project), Resources: n, Used: writ.Used{CPUSeconds: cpu, Received: received}}
		if project != "" {
			s.ProjectName = "the " + project
		}
		return s
	}
	for by, want := range map[string][]usageSum{
		byTenant:  {sum("", "", 1, 7, 0), sum("acme", "", 3, 35, 7)},
		byProject: {sum("", "lab", 1, 7, 0), sum("acme", "shop", 2, 30, 3), sum("acme", "wiki", 1, 5, 4)},
	} {
		if diff := cmp.Diff(want, sumUsage(usage, by)); diff != "" {
			t.Errorf("by %s (-want +got):\n%s", by, diff)
		}
	}
}

func TestANodeIsOfflineAfterTheTimeOfItsDatacenter(t *testing.T) {
	roster := &identity.Roster{Datacenters: []identity.Datacenter{
		{Datacenter: writ.Datacenter{ID: "a"}, Silence: identity.Silence{Silent: 2 * time.Minute, Lost: time.Hour}}, {Datacenter: writ.Datacenter{ID: "b"}},
	}}
	for datacenter, want := range map[writ.DatacenterID]float64{"a": 120, "b": 5, "removed": 5} {
		if got := silentAfter(roster, datacenter); got != want {
			t.Errorf("%s: after %g s, want %g", datacenter, got, want)
		}
	}
	if got := silentAfter(nil, "a"); got != 0 {
		t.Errorf("without a roster after %g s", got)
	}
}

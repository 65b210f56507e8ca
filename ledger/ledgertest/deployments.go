package ledgertest

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/ledger"
)

// testDeployments lists the owners of resources and counts the resources.
func testDeployments(t *testing.T, l ledger.Ledger) {
	ctx := t.Context()
	var news []writ.Event
	for n, of := range []struct {
		project    writ.ProjectID
		deployment string
		kind       writ.ResourceKind
	}{
		{shop, "web", writ.KindVolume}, {shop, "web", writ.KindMachine}, {shop, "web", writ.KindVolume},
		{shop, "", writ.KindVolume},
		{shop, "api", writ.KindMachine}, {bank, "web", writ.KindVolume},
	} {
		id := writ.ResourceID{Project: of.project, Kind: of.kind, Name: fmt.Sprint("r", n)}
		news = append(news,
			writ.Event{
				Resource: &writ.Resource{ResourceID: id, Deployment: of.deployment, Node: writ.NodeID(fmt.Sprint("n", n%2))},
			})
	}
	troubled := *news[1].Resource
	troubled.Health = ledger.Unhealthy
	mended := *news[0].Resource
	mended.Drift = []string{"it is read-only"}
	news = append(news, writ.Event{Resource: &troubled})
	store(t, l, east, events(1, writ.Event{Resource: &mended}))
	store(t, l, east, events(2, news...))
	store(t, l, west, events(1, writ.Event{Resource: &mended}))
	api, web, banks := ledger.Deployment{Datacenter: east, Project: shop, Name: "api", Resources: 1}, ledger.Deployment{
		Datacenter: east, Project: shop, Name: "web", Resources: 3,
	}, ledger.Deployment{Datacenter: east, Project: bank, Name: "web", Resources: 1}
	farWeb := ledger.Deployment{Datacenter: west, Project: shop, Name: "web", Resources: 1}
	for _, tt := range []struct {
		filter ledger.ResourceFilter
		want   []ledger.Deployment
		counts map[writ.ResourceKind]int
	}{
		{
			ledger.ResourceFilter{}, []ledger.Deployment{api, web, banks, farWeb},
			map[writ.ResourceKind]int{writ.KindVolume: 5, writ.KindMachine: 2},
		},
		{
			ledger.ResourceFilter{Projects: []writ.ProjectID{bank}}, []ledger.Deployment{banks},
			map[writ.ResourceKind]int{writ.KindVolume: 1},
		},
		{ledger.ResourceFilter{Datacenter: west}, []ledger.Deployment{farWeb}, map[writ.ResourceKind]int{writ.KindVolume: 1}},
		{
			ledger.ResourceFilter{Datacenter: east, Deployment: "web", Projects: []writ.ProjectID{shop}},
			[]ledger.Deployment{web}, map[writ.ResourceKind]int{writ.KindVolume: 2, writ.KindMachine: 1},
		},
		{ledger.ResourceFilter{Kind: writ.KindVolume, Name: "no-volume"}, nil, map[writ.ResourceKind]int{}},
		{
			ledger.ResourceFilter{Troubled: true, Projects: []writ.ProjectID{shop}},
			[]ledger.Deployment{{Datacenter: east, Project: shop, Name: "web", Resources: 1}, farWeb},
			map[writ.ResourceKind]int{writ.KindMachine: 1, writ.KindVolume: 1},
		},
		{ledger.ResourceFilter{Troubled: true, Projects: []writ.ProjectID{bank}}, nil, map[writ.ResourceKind]int{}},
		{ledger.ResourceFilter{Node: "n9"}, nil, map[writ.ResourceKind]int{}},
	} {
		for size := 1; size <= 5; size += 2 {
			got, err := walk(ctx, size, func() {},
				func(ctx context.Context, p ledger.Page) (ledger.List[ledger.Deployment], error) {
					return l.Deployments(ctx, tt.filter, p)
				})
			if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
				t.Errorf("%+v in pages of %d: %v\n%s", tt.filter, size, err, diff)
			}
		}
		counts, err := l.CountResources(ctx, tt.filter)
		if diff := cmp.Diff(tt.counts, counts); err != nil || diff != "" {
			t.Errorf("%+v: %v\n%s", tt.filter, err, diff)
		}
	}
	accepted, waits := incoming(1, east), incoming(3, east)
	for _, tt := range []struct {
		now          string
		happens      func()
		newest       writ.RunID
		wantRevision int
	}{
		{"no run", func() {}, "", 0},
		{"it waits", func() { add(t, l, accepted) }, accepted.Run, 0},
		{"it is accepted", func() {
			run := runOf(accepted, writ.RunRunning)
			run.Revision = 7
			store(t, l, east, events(int64(len(news)+2), writ.Event{Run: &run}))
		}, accepted.Run, 7},
		{"a newer one waits", func() { add(t, l, waits) }, waits.Run, 7},
	} {
		tt.happens()
		newest, revision, err := web.Newest(ctx, l.Runs)
		if err != nil || revision != tt.wantRevision || (newest == nil) != (tt.newest == "") || newest != nil &&
			newest.ID != tt.newest {
			t.Errorf("%s: revision %d of %+v, %v", tt.now, revision, newest, err)
		}
	}
}

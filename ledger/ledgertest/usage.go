package ledgertest

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"writ"
	"writ/ledger"
)

func testUsage(t *testing.T, l ledger.Ledger) {
	hour := time.Date(2026, 3, 31, 23, 0, 0, 0, time.UTC)
	of := func(name string, node writ.NodeID, at time.Time, cpu, sent int64) writ.Event {
		return writ.Event{Usage: &writ.Usage{
			ResourceID: writ.ResourceID{Project: shop, Kind: writ.KindMachine, Name: name},
			UID:        writ.UID("uid-" + name), Node: node, Hour: at,
			Used: writ.Used{CPUSeconds: cpu, Sent: sent},
		}}
	}
	foreign := of("c", "n1", hour, 7, 0)
	foreign.Usage.Project = bank
	store(t, l, east, events(1,
		// The first three events report the same hour, out of order.
		of("a", "n1", hour, 100, 5), of("a", "n1", hour, 300, 5), of("a", "n1", hour, 200, 9),
		of("a", "n2", hour, 1, 0), of("a", "n1", hour.Add(time.Hour), 40, 0), of("b", "n1", hour, 2, 0), of("b", "n2",
			hour, -1000, -1), foreign,
	))
	item := func(name string, first, last time.Time, cpu, sent int64) ledger.Usage {
		e := of(name, "", first, cpu, sent)
		return ledger.Usage{
			ResourceID: e.Usage.ResourceID, UID: e.Usage.UID, Datacenter: east, First: first, Last: last,
			Used: e.Usage.Used,
		}
	}
	for _, tt := range []struct {
		name   string
		filter ledger.UsageFilter
		want   []ledger.Usage
	}{
		{"project", ledger.UsageFilter{Projects: []writ.ProjectID{shop}}, []ledger.Usage{
			item("a", hour, hour.Add(time.Hour), 341, 9), item("b", hour, hour, 2, 0),
		}},
		{
			"until", ledger.UsageFilter{Projects: []writ.ProjectID{shop}, Until: hour.Add(time.Hour)},
			[]ledger.Usage{item("a", hour, hour, 301, 9), item("b", hour, hour, 2, 0)},
		},
		{
			"from", ledger.UsageFilter{Projects: []writ.ProjectID{shop}, From: hour.Add(time.Hour)},
			[]ledger.Usage{item("a", hour.Add(time.Hour), hour.Add(time.Hour), 40, 0)},
		},
		{
			"half a month",
			ledger.UsageFilter{Projects: []writ.ProjectID{shop}, From: hour.Add(-time.Minute), Until: hour.Add(time.Minute)},
			[]ledger.Usage{item("a", hour, hour, 301, 9), item("b", hour, hour, 2, 0)},
		},
		{"one month", ledger.UsageFilter{Projects: []writ.ProjectID{shop}, From: time.Date(2026, 3, 1, 0, 0, 0, 0,
			time.UTC), Until: hour.Add(time.Hour)}, []ledger.Usage{item("a", hour, hour, 301, 9), item("b", hour, hour,
			2, 0)}},
		{"two months", ledger.UsageFilter{Projects: []writ.ProjectID{shop}, From: time.Date(2026, 3, 1, 0, 0, 0, 0,
			time.UTC), Until: time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)}, []ledger.Usage{item("a", hour,
			hour.Add(time.Hour), 341, 9), item("b", hour, hour, 2, 0)}},
		{
			"projects", ledger.UsageFilter{Projects: []writ.ProjectID{shop, bank}, From: hour.Add(time.Hour)},
			[]ledger.Usage{item("a", hour.Add(time.Hour), hour.Add(time.Hour), 40, 0)},
		},
		{"a project without usage", ledger.UsageFilter{Projects: []writ.ProjectID{"x"}}, []ledger.Usage{}},
		{"elsewhere", ledger.UsageFilter{Datacenter: west}, []ledger.Usage{}},
	} {
		list, err := l.Usage(t.Context(), tt.filter, ledger.Page{})
		ok(t, err)
		if diff := cmp.Diff(tt.want, list.Items); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	all := 0
	for page := (ledger.Page{Limit: 1}); ; all++ {
		list, err := l.Usage(t.Context(), ledger.UsageFilter{}, page)
		ok(t, err)
		if page.Cursor = list.Next; page.Cursor == "" {
			break
		}
	}
	if all != 2 {
		t.Errorf("%d pages have a successor, want 2 of 3", all)
	}
	project := func(id writ.ProjectID, resources int, cpu, sent int64) ledger.ProjectUsage {
		return ledger.ProjectUsage{Project: id, Resources: resources, Used: writ.Used{CPUSeconds: cpu, Sent: sent}}
	}
	for _, tt := range []struct {
		name   string
		filter ledger.UsageFilter
		want   []ledger.ProjectUsage
	}{
		{"all projects", ledger.UsageFilter{}, []ledger.ProjectUsage{project(shop, 2, 343, 9), project(bank, 1, 7, 0)}},
		{"one month", ledger.UsageFilter{From: time.Date(2026, 3, 1, 0, 0, 0, 0,
			time.UTC), Until: hour.Add(time.Hour)}, []ledger.ProjectUsage{project(shop, 2, 303, 9), project(bank, 1, 7,
			0)}},
		{"some hours", ledger.UsageFilter{Until: hour.Add(time.Minute)}, []ledger.ProjectUsage{
			project(shop, 2, 303, 9), project(bank, 1, 7, 0),
		}},
		{"one", ledger.UsageFilter{Projects: []writ.ProjectID{shop}}, []ledger.ProjectUsage{project(shop, 2, 343, 9)}},
		{"a later hour", ledger.UsageFilter{From: hour.Add(time.Hour)}, []ledger.ProjectUsage{project(shop, 1, 40, 0)}},
		{"an earlier hour", ledger.UsageFilter{Until: hour}, []ledger.ProjectUsage{}},
		{"elsewhere", ledger.UsageFilter{Datacenter: west}, []ledger.ProjectUsage{}},
	} {
		var got []ledger.ProjectUsage
		for page := (ledger.Page{Limit: 1}); ; {
			list, err := l.UsageOfProjects(t.Context(), tt.filter, page)
			ok(t, err)
			got = append(got, list.Items...)
			if page.Cursor = list.Next; page.Cursor == "" {
				break
			}
		}
		byProject := cmpopts.SortSlices(func(a, b ledger.ProjectUsage) bool { return a.Project < b.Project })
		if diff := cmp.Diff(tt.want, got, byProject, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("usage of projects, %s (-want +got):\n%s", tt.name, diff)
		}
	}
	news, _, err := l.Events(t.Context(), 0, ledger.EventFilter{}, 100)
	ok(t, err)
	if len(news) != 0 {
		t.Errorf("%d events about usage are visible", len(news))
	}
}

// testImpossibleUsage reports impossible usage from a datacenter. This must neither block its events nor hide the usage
// of other datacenters.
func testImpossibleUsage(t *testing.T, l ledger.Ledger) {
	hour := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	all := func(n int64) writ.Used {
		return writ.Used{CPUSeconds: n, MemoryMiBSeconds: n, DiskGiBSeconds: n, Received: n, Sent: n}
	}
	of := func(name string, node writ.NodeID, at time.Time, used writ.Used) writ.Event {
		return writ.Event{Usage: &writ.Usage{
			ResourceID: writ.ResourceID{Project: shop, Kind: writ.KindMachine, Name: name},
			UID:        writ.UID("uid-" + name), Node: node, Hour: at, Used: used,
		}}
	}
	store(t, l, east, events(1,
		of("a", "n1", hour, all(math.MaxInt64)), of("a", "n2", hour, all(math.MaxInt64)),
		of("a", "n1", hour.Add(time.Hour), all(math.MaxInt64)), of("b", "n1", hour, all(math.MaxInt64))))
	store(t, l, west, events(1, of("c", "n1", hour, all(7))))
	month := ledger.UsageFilter{From: hour, Until: hour.AddDate(0, 1, 0)}
	hours := ledger.UsageFilter{From: hour.Add(-time.Minute)}
	for name, filter := range map[string]ledger.UsageFilter{"all": {}, "a month": month, "hours": hours} {
		list, err := l.Usage(t.Context(), filter, ledger.Page{})
		ok(t, err)
		if len(list.Items) != 3 {
			t.Fatalf("%s: %d resources, want 3", name, len(list.Items))
		}
		a, b, c := list.Items[0].Used, list.Items[1].Used, list.Items[2].Used
		if three := b.Plus(b).Plus(b); a != three || b.CPUSeconds < 1000*3600 || b.CPUSeconds > 1e9 ||
			b.Most(all(0)) != b {
			t.Errorf("%s: %+v in three hours and %+v in one", name, a, b)
		}
		if c != all(7) {
			t.Errorf("%s: the other datacenter has %+v", name, c)
		}
		projects, err := l.UsageOfProjects(t.Context(), filter, ledger.Page{})
		ok(t, err)
		if want := a.Plus(b).Plus(c); len(projects.Items) != 1 || projects.Items[0].Used != want {
			t.Errorf("%s: projects %+v, want %+v", name, projects.Items, want)
		}
	}
}

package coord

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"writ"
	"writ/coord/api"
	"writ/ledger"
	"writ/supervisor/link"
)

// Promise: Readers and roles: A reader sees the load of resources of its projects only, as the datacenter reports it.
// How: The coordinator requests the loads of the resources that it lists, by node and UID, and drops all other answers.
// Also: TestReaderSeesNoOtherProject.
func TestListHasTheLoadOfItsResourcesOnly(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var mu sync.Mutex
	var asked []link.Loads
	answer := func(p link.Loads) link.LoadList {
		list := link.LoadList{Loads: []link.Load{}}
		for _, of := range p.Of {
			l := link.Load{Node: of.Node, UID: of.UID, At: at, Running: true, MilliCPUs: 250, MemoryBytes: 5 << 20, Restarts: 3}
			if of.UID == "uid-wrong" { // as of another node
				l.Node = "n2"
			}
			if p.Samples {
				l.Samples = slices.Repeat([]link.LoadSample{{At: at, MilliCPUs: 100, MemoryBytes: -1}}, 1000)
			}
			list.Loads = append(list.Loads, l)
		}
		return list
	}
	p, s := startReading(t)
	s.leave()
	s = connect(p, vienna, func(s *supervisor) {
		hello := s.dialer.Hello
		s.dialer.Hello = func() link.Hello {
			h := hello()
			h.Verbs = slices.Clone(link.ToSupervisor)
			return h
		}
		s.dialer.Handle = func(ctx context.Context, verb link.Verb, params json.RawMessage) (any, error) {
			if verb != link.VerbLoads {
				return s.handle(ctx, verb, params)
			}
			var p link.Loads
			if err := link.Decode(params, &p); err != nil {
				return nil, err
			}
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, p)
			return answer(p), nil
		}
	})
	of := func(project writ.ProjectID, kind writ.ResourceKind, name string) writ.Event {
		return writ.Event{Resource: &writ.Resource{ResourceID: writ.ResourceID{Project: project, Kind: kind, Name: name}, UID: writ.UID("uid-" + name), Node: "n1"}}
	}
	s.tell(of(shop, writ.KindContainer, "web"), of(shop, writ.KindMachine, "vm"), of(shop, writ.KindVolume, "data"), of(shop, writ.KindContainer, "wrong"),
		of(blog, writ.KindContainer, "blog"))
	p.await("resources", func() bool {
		list, err := p.Ledger.Resources(t.Context(), ledger.ResourceFilter{}, ledger.Page{})
		return err == nil && len(list.Items) == 5
	})
	list := func(query string) map[string]*api.Load {
		t.Helper()
		status, body := p.as(p.token("dave"), http.MethodGet, "/v1/resources"+query)
		var page api.ResourcePage
		if err := json.Unmarshal([]byte(body), &page); err != nil || status != http.StatusOK {
			t.Fatalf("%d %s", status, body)
		}
		loads := make(map[string]*api.Load)
		for _, r := range page.Items {
			loads[r.Name] = r.Load
		}
		return loads
	}
	loads := list("?samples=true")
	if len(loads) != 4 || loads["web"] == nil || loads["vm"] == nil || loads["data"] != nil || loads["wrong"] != nil {
		t.Fatalf("%+v", loads)
	}
	web := *loads["web"]
	if n := len(web.Samples); n != 289 || web.Samples[0] != (api.LoadSample{At: at, MilliCPUs: 100}) {
		t.Errorf("got %d samples: %+v", n, web.Samples[0])
	}
	if !web.At.Equal(at) || !web.Running || web.MilliCPUs != 250 || web.MemoryBytes != 5<<20 || web.Restarts != 3 {
		t.Errorf("%+v", web)
	}
	if loads := list("?name=vm"); len(loads) != 1 || loads["vm"] == nil || loads["vm"].Samples != nil {
		t.Errorf("%+v", loads)
	}
	mu.Lock()
	for _, a := range asked {
		if slices.ContainsFunc(a.Of, func(of link.LoadOf) bool { return of.UID == "uid-blog" || of.UID == "uid-data" }) {
			t.Errorf("the datacenter was asked for %+v", a)
		}
	}
	mu.Unlock()
	s.leave()
	if loads := list(""); len(loads) != 4 || loads["web"] != nil {
		t.Errorf("without the datacenter: %+v", loads)
	}
}

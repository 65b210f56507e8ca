package coord

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/coord/api"
	"writ/supervisor/link"
)

// bootsAtOnce is the number of machines in one answer of a supervisor.
const bootsAtOnce = 300

// boots answers a request for the booting machines.
func (s *supervisor) boots(asked link.Boots) link.BootList {
	list := s.starting
	after := min(asked.After, len(list.Machines))
	list.Machines = list.Machines[after:min(after+min(asked.Max, bootsAtOnce), len(list.Machines))]
	return list
}

// Several answers of a link become one list, no longer than requested, with known steps only, because steps are labels
// of metrics.
func TestMachinesThatStartAreListedToTheirEnd(t *testing.T) {
	p := start(t, nil)
	s := connect(p, vienna, nil)
	defer s.leave()
	s.mu.Lock()
	s.starting = link.BootList{Total: 1000, Failed: 3, Steps: map[string]int{"script": 999, "\x1b": 1}, Servers: []link.BootServer{{Token: "t1", Name: "site"}}}
	for i := range 1000 {
		s.starting.Machines = append(s.starting.Machines, link.BootMachine{MAC: fmt.Sprint(i), Advice: "see its screen", Since: time.Unix(int64(i), 0).UTC()})
	}
	s.mu.Unlock()
	list, err := api.Answer[api.BootList](p.client.ListBoots(t.Context(), &api.ListBootsParams{}))
	if err != nil || len(list.Items) != 2 {
		t.Fatalf("%+v, %v", list, err)
	}
	for _, d := range list.Items {
		if d.Datacenter == graz {
			if d.Error == nil || d.Error.Code != writ.CodeDatacenterAway || len(d.Machines) != 0 {
				t.Errorf("graz, which is away: %+v", d)
			}
			continue
		}
		if d.Name != "vienna" || d.Total != 1000 || d.Failed != 3 || len(d.Steps) != 1 || d.Steps["script"] != 999 || d.Servers[0].Name != "site" || len(d.Machines) != 1000 {
			t.Errorf("%+v", d.Steps)
		}
		for i, m := range d.Machines {
			if m.Mac != fmt.Sprint(999-i) || m.Advice == "" { // newest first
				t.Fatalf("the machine %d is %+v", i, m)
			}
		}
	}
	if status, text := p.get("/metrics"); status != http.StatusOK || strings.Count(text, "writ_boot_machines{") != 1 || !strings.Contains(text, `writ_boot_machines{datacenter="vienna",step="script"} 999`) {
		t.Errorf("the metrics are %d, %.500s", status, text)
	}
	few, err := p.live.Boots(t.Context(), vienna, 7)
	if err != nil || len(few) != 1 || len(few[0].Machines) != 7 || few[0].Total != 1000 {
		t.Errorf("of seven %d are listed, %v", len(few[0].Machines), err)
	}
}

// A supervisor of an earlier version has no boot servers, and is not shown as unreachable.
func TestEarlierSupervisorHasNoBootServers(t *testing.T) {
	p := start(t, nil)
	s := connect(p, vienna, func(s *supervisor) {
		handle := s.dialer.Handle
		s.dialer.Handle = func(ctx context.Context, verb link.Verb, params json.RawMessage) (any, error) {
			if verb == link.VerbBoots {
				return nil, writ.Errorf(writ.CodeVerbUnsupported, "what is %q?", verb)
			}
			return handle(ctx, verb, params)
		}
	})
	defer s.leave()
	all, err := p.live.Boots(t.Context(), vienna, 7)
	if err != nil || len(all) != 1 || all[0].Error != nil || all[0].Machines == nil || all[0].Servers == nil {
		t.Errorf("%+v, %v", all, err)
	}
}

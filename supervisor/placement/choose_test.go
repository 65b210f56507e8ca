package placement

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"writ"
	"writ/internal/test/testenv"
)

func TestChooseTakesTheBestNodeAndExplainsOthers(t *testing.T) {
	node := func(name string, change ...func(*Candidate)) Candidate {
		s := Candidate{
			Node: &writ.Node{
				ID: writ.NodeID(name + "-id"), Name: name, Admission: writ.AdmissionApproved, Scheduling: writ.SchedulingOpen,
				Liveness: writ.LivenessReady, Health: writ.Health{Drivers: []writ.NodeDriver{{Module: "machine"}, {Module: "volume"}}},
			},
			Free: writ.Capacity{CPUs: 8, MemoryMiB: 8192, DiskGiB: 100},
		}
		for _, c := range change {
			c(&s)
		}
		return s
	}
	small := Request{Modules: []string{"machine"}, Need: writ.Capacity{CPUs: 1}}
	lacking := node("a", func(s *Candidate) {
		s.Drivers = []writ.NodeDriver{{Module: "machine", Lacks: "KVM: open /dev/kvm: no such file or directory"}, {Module: "volume"}}
	})
	stocked := node("b", func(s *Candidate) {
		s.Open = 3
		s.Drivers = []writ.NodeDriver{{Module: "herodb", Engines: []writ.Engine{{Name: "redis-server", Version: "7.0.15"}, {Name: "hero_redis", Refused: "it shows its secret"}}}}
	})
	containers := func(init, simulated bool) func(*Candidate) {
		return func(s *Candidate) {
			s.Drivers = []writ.NodeDriver{{Module: "container", Init: init, Simulated: simulated}}
		}
	}
	cordoned := func(s *Candidate) { s.Scheduling = writ.SchedulingCordoned }
	sized := func(s *Candidate) { s.Capacity = writ.Capacity{CPUs: 16, MemoryMiB: 8192, DiskGiB: 100} }
	for _, tt := range []struct {
		name    string
		Request Request
		seats   []Candidate
		want    Decision
		why     string
	}{
		{"FewestOpenCalls", small, []Candidate{node("a", func(s *Candidate) { s.Open = 2 }), node("b", func(s *Candidate) { s.Open = 1 })}, Decision{Node: "b-id"}, ""},
		{"MostMemoryOfThese", small, []Candidate{node("a"), node("b", func(s *Candidate) { s.Free.MemoryMiB++ })}, Decision{Node: "b-id"}, ""},
		{"NameDecidesLast", small, []Candidate{node("b"), node("a")}, Decision{Node: "a-id"}, ""},
		{"OnlyTheNamedOne", Request{Node: "b"}, []Candidate{node("a"), node("b", func(s *Candidate) { s.Open = 9 })}, Decision{Node: "b-id"}, ""},
		{"TheNamedOneById", Request{Node: "b-id"}, []Candidate{node("a"), node("b")}, Decision{Node: "b-id"}, ""},
		{"Cordoned", small, []Candidate{node("a", cordoned)}, Decision{Later: true}, "a: is cordoned"},
		{"CordonedButItIsThere", Request{Node: "a", Bound: true}, []Candidate{node("a", cordoned)}, Decision{Node: "a-id"}, ""},
		{"Silent", small, []Candidate{node("a", func(s *Candidate) { s.Liveness = writ.LivenessSilent })}, Decision{Later: true}, "a: is silent"},
		{"Faulty", small, []Candidate{node("a", func(s *Candidate) { s.Fault = "disk full" })}, Decision{Later: true}, "a: takes no work: disk full"},
		{"LackingDriver", Request{Modules: []string{"machine"}}, []Candidate{lacking}, Decision{}, "a: has no driver for machine, because it lacks KVM: open /dev/kvm: no such file or directory"},
		{"OneOfTheEngines", Request{Modules: []string{"herodb"}, Engines: []EngineRequest{{"herodb", []string{"valkey-server", "redis-server"}, "7"}}}, []Candidate{node("a"), stocked}, Decision{Node: "b-id"}, ""},
		{"EnginesThatNobodyTold", Request{Engines: []EngineRequest{{"herodb", []string{"valkey-server"}, ""}}}, []Candidate{node("a", func(s *Candidate) { s.Drivers = []writ.NodeDriver{{Module: "herodb"}} })}, Decision{Node: "a-id"}, ""},
		{"NoEngine", Request{Engines: []EngineRequest{{"herodb", []string{"valkey-server", "hero_redis"}, "7"}}}, []Candidate{stocked},
			Decision{}, "b: has no suitable engine for herodb: it offers redis-server 7.0.15, and valkey-server or hero_redis of version 7 is required; it does not use hero_redis: it shows"},
		{"NoEngineOfTheVersion", Request{Engines: []EngineRequest{{"herodb", nil, "8"}}}, []Candidate{stocked},
			Decision{}, "b: has no suitable engine for herodb: it offers redis-server 7.0.15, and one of version 8 is required"},
		{"NoDriver", Request{Modules: []string{"herodb"}}, []Candidate{node("a")}, Decision{}, "a: has no driver for herodb"},
		{"LessThanNothingLeftOfWhatIsNotNeeded", small, []Candidate{node("a", func(s *Candidate) { s.Free.DiskGiB = -5 })}, Decision{Node: "a-id"}, ""},
		{"OneCPU", Request{Need: writ.Capacity{CPUs: 2}}, []Candidate{{Node: node("a").Node, Free: writ.Capacity{CPUs: 1}}}, Decision{}, "a: has 1 CPU free, 2 needed"},
		{"NoRoom", Request{Need: writ.Capacity{CPUs: 9}}, []Candidate{node("a")}, Decision{}, "a: has 8 CPUs free, 9 needed"},
		{"NoRoomForFraction", Request{Need: writ.Capacity{Hundredths: 50}}, []Candidate{node("a", func(c *Candidate) { c.Free = writ.Capacity{Hundredths: 30} })}, Decision{},
			"a: has 0.3 CPUs free, 0.5 needed"},
		{"RoomForFraction", Request{Need: writ.Capacity{Hundredths: 30}}, []Candidate{node("a", func(c *Candidate) { c.Free = writ.Capacity{Hundredths: 30} })}, Decision{Node: "a-id"}, ""},
		{"TooSmallInAll", Request{Need: writ.Capacity{CPUs: 17}}, []Candidate{node("a", sized)}, Decision{}, "a: is too small: has 16 CPUs in all, 17 needed"},
		{"NoReturnMakesItLarger", Request{Need: writ.Capacity{CPUs: 17}}, []Candidate{node("a", sized, func(s *Candidate) { s.Liveness = writ.LivenessSilent }), node("b", sized, cordoned)},
			Decision{}, "a, b: each is too small: has 16 CPUs in all, 17 needed"},
		{"UnheardMayBeLarger", Request{Need: writ.Capacity{CPUs: 17}}, []Candidate{node("a", func(s *Candidate) { s.Liveness = writ.LivenessSilent })}, Decision{Later: true}, "a: is silent"},
		{"OnlyOneHasAnInitProgram", Request{Init: true}, []Candidate{node("a", containers(false, false)), node("b", containers(true, false))}, Decision{Node: "b-id"}, ""},
		{"SimulatedContainersNeedNoInitProgram", Request{Init: true}, []Candidate{node("a", containers(false, true))}, Decision{Node: "a-id"}, ""},
		{"NoInitProgram", Request{Init: true}, []Candidate{node("a", containers(false, false))}, Decision{}, "a: has no init program for containers"},
		{"NoInitProgramNeeded", Request{}, []Candidate{node("a", containers(false, false))}, Decision{Node: "a-id"}, ""},
		{"NoLabel", Request{Labels: map[string]string{"disk": "ssd"}}, []Candidate{node("a")}, Decision{}, "a: has no label disk=ssd"},
		{"OneMayComeBack", small, []Candidate{node("a", func(s *Candidate) { s.Liveness = writ.LivenessLost }), node("b", func(s *Candidate) { s.Free = writ.Capacity{} })},
			Decision{Later: true}, "a: is lost; b: has 0 CPUs free, 1 needed"},
		{"NoSuchNode", Request{Node: "n1"}, []Candidate{node("b"), node("a")}, Decision{}, "the datacenter has no node n1, it has a, b"},
		{"TheNamedOneIsCordoned", Request{Node: "b"}, []Candidate{node("a"), node("b", cordoned)}, Decision{Later: true}, "b: is cordoned"},
		{"NoNodes", small, nil, Decision{Later: true}, "the datacenter has no nodes yet"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Choose(tt.Request, tt.seats)
			if got.Node != tt.want.Node || got.Later != tt.want.Later || !strings.HasPrefix(got.Why.Candidates(), tt.why) {
				t.Errorf("choose = %+v, want %+v, %q", got, tt.want, tt.why)
			}
		})
	}
}

// TestChooseComparesAllNodes compares with a decision that sorts all suitable nodes.
func TestChooseComparesAllNodes(t *testing.T) {
	t.Parallel()
	testenv.CheckProperty(t, func(t *rapid.T) {
		names := rapid.Permutation([]string{"a", "b", "c", "d", "e", "f"}).Draw(t, "names")
		few := func(what string) int64 { return rapid.Int64Range(0, 2).Draw(t, what) }
		nodes := make([]Candidate, rapid.IntRange(1, len(names)).Draw(t, "nodes"))
		for i := range nodes {
			nodes[i] = Candidate{
				Node: &writ.Node{
					ID: writ.NodeID(names[i]), Name: names[i], Admission: writ.AdmissionApproved, Scheduling: writ.SchedulingOpen,
					Liveness: writ.LivenessReady,
				},
				Free: writ.Capacity{CPUs: few("CPUs"), MemoryMiB: few("MiB"), DiskGiB: few("GiB")}, Open: int(few("open")),
			}
		}
		r := Request{Need: writ.Capacity{CPUs: 1}, Prefer: writ.NodeID(rapid.SampledFrom(names).Draw(t, "preferred"))}
		var fitting []Candidate
		for i := range nodes {
			if nodes[i].Free.CPUs > 0 {
				fitting = append(fitting, nodes[i])
			}
		}
		slices.SortFunc(fitting, func(a, b Candidate) int { return compare(&r, &a, &b) })
		got := Choose(r, nodes)
		if len(fitting) == 0 {
			if got.Node != "" {
				t.Fatalf("%s is chosen, and no node is suitable", got.Node)
			}
			return
		}
		if got.Node != fitting[0].ID || got.Only != (len(fitting) == 1) {
			t.Fatalf("choose = %s, only %v; want %s of %d", got.Node, got.Only, fitting[0].ID, len(fitting))
		}
	})
}

// TestReasonIsShort checks that a reason, which every waiting call stores, does not grow with the datacenter.
//
// Promise: Recovery: The reason why no node fits a call stays short for any number of nodes.
// How: The text groups nodes by cause and lists a few names.
func TestReasonIsShort(t *testing.T) {
	var against []writ.NodeVerdict
	for i := range 500 {
		reason := "is silent"
		switch {
		case i%100 == 7:
			reason = "is cordoned"
		case i%3 == 0:
			reason = fmt.Sprintf("has %d CPUs free, 900 needed", i)
		}
		against = append(against, writ.NodeVerdict{Name: fmt.Sprintf("n%03d", i), Reason: reason})
	}
	if got := reasonOf(against).Candidates(); !strings.HasPrefix(got, "n001, n002, n004 and 326 more: each is silent; n007, n107, n207 and 2 more: each is cordoned; ") || !strings.HasSuffix(got, "more nodes cannot run it for other reasons") || len(got) > 400 {
		t.Errorf("it says %q, %d bytes", got, len(got))
	}
	if got, want := reasonOf(against[:5]).Candidates(), "n000: has 0 CPUs free, 900 needed; n001, n002, n004: each is silent; n003: has 3 CPUs free, 900 needed"; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
}

func TestCapacityErrorNamesTheRemedy(t *testing.T) {
	wanted := Request{Need: writ.Capacity{CPUs: 9, MemoryMiB: 512, DiskGiB: 5000}}
	full := Candidate{Node: &writ.Node{ID: "a-id", Name: "a", Admission: writ.AdmissionApproved, Scheduling: writ.SchedulingOpen, Liveness: writ.LivenessReady}}
	full.Free = writ.Capacity{CPUs: 8, MemoryMiB: 8192, DiskGiB: -3}
	err := NoCapacity(wanted, Choose(wanted, []Candidate{full}))
	if want := "no node is suitable: a: has 8 CPUs free, 9 needed; has 0 GiB of disk free, 5000 needed"; err.Message != want {
		t.Errorf("it says %q, want %q", err.Message, want)
	}
	small := full
	small.Capacity = writ.Capacity{CPUs: 8, MemoryMiB: 8192, DiskGiB: 100}
	if err := NoCapacity(wanted, Choose(wanted, []Candidate{small, small})); !strings.Contains(err.Hint, "add a larger node") {
		t.Errorf("the hint is %q", err.Hint)
	}
	for hint, w := range map[string]Request{"writ node list": wanted, "writ doctor": {Modules: []string{"machine"}}, "restart the runner": {Modules: []string{"machine"}}, "delete unused resources there": {Node: "a", Bound: true, Need: wanted.Need}, "correct the option node": {Node: "b"}, "omit the option node": {Node: "a", Need: wanted.Need},
		"writ node label NODE disk=ssd": {Labels: map[string]string{"disk": "ssd"}}} {
		s := full
		s.Drivers = []writ.NodeDriver{{Module: "volume"}}
		if err := NoCapacity(w, Choose(w, []Candidate{s})); !strings.Contains(err.Hint, hint) {
			t.Errorf("%v: the hint is %q", w, err.Hint)
		}
	}
}

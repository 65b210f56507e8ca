package supervisor

import (
	"fmt"
	"strings"
	"testing"

	"writ"
)

func TestChooseTakesTheNodeThatFitsBestAndSaysWhyNotOthers(t *testing.T) {
	node := func(name string, change ...func(*seat)) seat {
		s := seat{
			Node: writ.Node{
				ID: writ.NodeID(name + "-id"), Name: name, Admission: writ.AdmissionApproved, Scheduling: writ.SchedulingOpen,
				Liveness: writ.LivenessReady, Drivers: []writ.NodeDriver{{Module: "machine"}, {Module: "volume"}},
			},
			free: writ.Capacity{CPUs: 8, MemoryMiB: 8192, DiskGiB: 100},
		}
		for _, c := range change {
			c(&s)
		}
		return s
	}
	small := wish{modules: []string{"machine"}, need: writ.Capacity{CPUs: 1}}
	lacking := node("a", func(s *seat) {
		s.Drivers = []writ.NodeDriver{{Module: "machine", Lacks: "KVM: open /dev/kvm: no such file or directory"}, {Module: "volume"}}
	})
	stocked := node("b", func(s *seat) {
		s.open = 3
		s.Drivers = []writ.NodeDriver{{Module: "herodb", Engines: []writ.Engine{{Name: "redis-server", Version: "7.0.15"}, {Name: "hero_redis", Refused: "it shows its secret"}}}}
	})
	cordoned := func(s *seat) { s.Scheduling = writ.SchedulingCordoned }
	sized := func(s *seat) { s.Capacity = writ.Capacity{CPUs: 16, MemoryMiB: 8192, DiskGiB: 100} }
	for _, tt := range []struct {
		name  string
		wish  wish
		seats []seat
		want  verdict
		why   string
	}{
		{"FewestOpenCalls", small, []seat{node("a", func(s *seat) { s.open = 2 }), node("b", func(s *seat) { s.open = 1 })}, verdict{node: "b-id"}, ""},
		{"MostMemoryOfThese", small, []seat{node("a"), node("b", func(s *seat) { s.free.MemoryMiB++ })}, verdict{node: "b-id"}, ""},
		{"NameDecidesLast", small, []seat{node("b"), node("a")}, verdict{node: "a-id"}, ""},
		{"OnlyTheNamedOne", wish{node: "b"}, []seat{node("a"), node("b", func(s *seat) { s.open = 9 })}, verdict{node: "b-id"}, ""},
		{"TheNamedOneById", wish{node: "b-id"}, []seat{node("a"), node("b")}, verdict{node: "b-id"}, ""},
		{"Cordoned", small, []seat{node("a", cordoned)}, verdict{later: true}, "a: is cordoned"},
		{"CordonedButItIsThere", wish{node: "a", stays: true}, []seat{node("a", cordoned)}, verdict{node: "a-id"}, ""},
		{"Silent", small, []seat{node("a", func(s *seat) { s.Liveness = writ.LivenessSilent })}, verdict{later: true}, "a: is silent"},
		{"Faulty", small, []seat{node("a", func(s *seat) { s.Fault = "disk full" })}, verdict{later: true}, "a: takes no work: disk full"},
		{"LackingDriver", wish{modules: []string{"machine"}}, []seat{lacking}, verdict{}, "a: has no driver for machine, for want of KVM: open /dev/kvm: no such file or directory"},
		{"OneOfTheEngines", wish{modules: []string{"herodb"}, engines: []engineWish{{"herodb", []string{"valkey-server", "redis-server"}, "7"}}}, []seat{node("a"), stocked}, verdict{node: "b-id"}, ""},
		{"EnginesThatNobodyTold", wish{engines: []engineWish{{"herodb", []string{"valkey-server"}, ""}}}, []seat{node("a", func(s *seat) { s.Drivers = []writ.NodeDriver{{Module: "herodb"}} })}, verdict{node: "a-id"}, ""},
		{"NoEngine", wish{engines: []engineWish{{"herodb", []string{"valkey-server", "hero_redis"}, "7"}}}, []seat{stocked},
			verdict{}, "b: has no engine for herodb that will do: it offers redis-server 7.0.15, and valkey-server or hero_redis of version 7 is asked for; it does not use hero_redis: it shows"},
		{"NoEngineOfTheVersion", wish{engines: []engineWish{{"herodb", nil, "8"}}}, []seat{stocked},
			verdict{}, "b: has no engine for herodb that will do: it offers redis-server 7.0.15, and one of version 8 is asked for"},
		{"NoDriver", wish{modules: []string{"herodb"}}, []seat{node("a")}, verdict{}, "a: has no driver for herodb"},
		{"LessThanNothingLeftOfWhatIsNotNeeded", small, []seat{node("a", func(s *seat) { s.free.DiskGiB = -5 })}, verdict{node: "a-id"}, ""},
		{"NoRoom", wish{need: writ.Capacity{CPUs: 9}}, []seat{node("a")}, verdict{}, "a: has 8 of the 9 needed CPUs left"},
		{"TooSmallInAll", wish{need: writ.Capacity{CPUs: 17}}, []seat{node("a", sized)}, verdict{}, "a: is too small: has 16 of the 17 needed CPUs in all"},
		{"NoReturnMakesItLarger", wish{need: writ.Capacity{CPUs: 17}}, []seat{node("a", sized, func(s *seat) { s.Liveness = writ.LivenessSilent }), node("b", sized, cordoned)},
			verdict{}, "a, b: is too small: has 16 of the 17 needed CPUs in all"},
		{"UnheardMayBeLarger", wish{need: writ.Capacity{CPUs: 17}}, []seat{node("a", func(s *seat) { s.Liveness = writ.LivenessSilent })}, verdict{later: true}, "a: is silent"},
		{"NoLabel", wish{labels: map[string]string{"disk": "ssd"}}, []seat{node("a")}, verdict{}, "a: has no label disk=ssd"},
		{"OneMayComeBack", small, []seat{node("a", func(s *seat) { s.Liveness = writ.LivenessLost }), node("b", func(s *seat) { s.free = writ.Capacity{} })},
			verdict{later: true}, "a: is lost; b: has 0 of the 1 needed CPUs left"},
		{"NoSuchNode", wish{node: "n1"}, []seat{node("b"), node("a")}, verdict{}, "the datacenter has no node n1, it has a, b"},
		{"TheNamedOneIsCordoned", wish{node: "b"}, []seat{node("a"), node("b", cordoned)}, verdict{later: true}, "b: is cordoned"},
		{"NoNodes", small, nil, verdict{later: true}, "the datacenter has no nodes yet"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := choose(tt.wish, tt.seats)
			if got.node != tt.want.node || got.later != tt.want.later || !strings.HasPrefix(got.why.Candidates(), tt.why) {
				t.Errorf("choose = %+v, want %+v, %q", got, tt.want, tt.why)
			}
		})
	}
}

// TestWhyNoNodeWillDoStaysShort holds that what is kept with every call that waits does not grow with the datacenter.
func TestWhyNoNodeWillDoStaysShort(t *testing.T) {
	var against []writ.NodeVerdict
	for i := range 500 {
		reason := "is silent"
		switch {
		case i%100 == 7:
			reason = "is cordoned"
		case i%3 == 0:
			reason = fmt.Sprintf("has %d of the 900 needed CPUs left", i)
		}
		against = append(against, writ.NodeVerdict{Name: fmt.Sprintf("n%03d", i), Reason: reason})
	}
	if got := causes(against).Candidates(); !strings.HasPrefix(got, "n001, n002, n004 and 326 more: is silent; n007, n107, n207 and 2 more: is cordoned; ") || !strings.HasSuffix(got, "more nodes will not do for other causes") || len(got) > 400 {
		t.Errorf("it says %q, %d bytes", got, len(got))
	}
	if got, want := causes(against[:5]).Candidates(), "n000: has 0 of the 900 needed CPUs left; n001, n002, n004: is silent; n003: has 3 of the 900 needed CPUs left"; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
}

func TestARefusalForLackOfCapacityNamesTheRemedy(t *testing.T) {
	wanted := wish{need: writ.Capacity{CPUs: 9, MemoryMiB: 512, DiskGiB: 5000}}
	full := seat{Node: writ.Node{ID: "a-id", Name: "a", Admission: writ.AdmissionApproved, Scheduling: writ.SchedulingOpen, Liveness: writ.LivenessReady}}
	full.free = writ.Capacity{CPUs: 8, MemoryMiB: 8192, DiskGiB: -3}
	err := noCapacity(wanted, choose(wanted, []seat{full}))
	if want := "no node will do: a: has 8 of the 9 needed CPUs left, has 0 of the 5000 needed GiB of disk left"; err.Message != want {
		t.Errorf("it says %q, want %q", err.Message, want)
	}
	small := full
	small.Capacity = writ.Capacity{CPUs: 8, MemoryMiB: 8192, DiskGiB: 100}
	if err := noCapacity(wanted, choose(wanted, []seat{small, small})); !strings.Contains(err.Hint, "add a larger node") {
		t.Errorf("the hint is %q", err.Hint)
	}
	for hint, w := range map[string]wish{"writ node list": wanted, "writ doctor": {modules: []string{"machine"}}, "correct the option node": {node: "b"}, "leave the option node out": {node: "a", need: wanted.need},
		"writ node label NODE disk=ssd": {labels: map[string]string{"disk": "ssd"}}} {
		s := full
		s.Drivers = []writ.NodeDriver{{Module: "volume"}}
		if err := noCapacity(w, choose(w, []seat{s})); !strings.Contains(err.Hint, hint) {
			t.Errorf("%v: the hint is %q", w, err.Hint)
		}
	}
}

func TestBackoffDoublesUpToAMinuteWithJitter(t *testing.T) {
	for attempt := 1; attempt < 12; attempt++ {
		most := min(backoffFirst<<(attempt-1), backoffMost)
		for range 100 {
			if d := backoff(attempt); d < most/2 || d > most {
				t.Fatalf("after attempt %d: %s, want %s to %s", attempt, d, most/2, most)
			}
		}
	}
}

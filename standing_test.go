package writ_test

import (
	"testing"

	"writ"
)

func TestStandingsAreCompared(t *testing.T) {
	full := func() writ.Standing {
		return writ.Standing{State: "stopped", Address: "fd00::7", Exit: &writ.Exit{Code: 137, OutOfMemory: true},
			MoreAddresses: []string{"fd00:1::7"}, Published: []writ.Published{{Address: "192.0.2.10", Port: 80}}}
	}
	for name, change := range map[string]func(*writ.Standing){
		"state":         func(s *writ.Standing) { s.State = "running" },
		"address":       func(s *writ.Standing) { s.Address = "" },
		"health":        func(s *writ.Standing) { s.Health = "unhealthy" },
		"ipv4":          func(s *writ.Standing) { s.IPv4 = "10.0.0.2" },
		"more":          func(s *writ.Standing) { s.MoreAddresses = nil },
		"published":     func(s *writ.Standing) { s.Published[0].Port = 81 },
		"no exit":       func(s *writ.Standing) { s.Exit = nil },
		"code":          func(s *writ.Standing) { s.Exit.Code = 1 },
		"out of memory": func(s *writ.Standing) { s.Exit.OutOfMemory = false },
	} {
		other := full()
		change(&other)
		if full().Equal(other) || other.Equal(full()) {
			t.Errorf("another %s makes no difference", name)
		}
	}
	if !full().Equal(full()) || !(writ.Standing{}).Equal(writ.Standing{}) {
		t.Error("equal standings differ")
	}
}

package placement

import (
	"strings"
	"testing"

	"writ"
)

func TestPortsChooseTheNode(t *testing.T) {
	node := func(name string, open []string, taken map[Port]string) Candidate {
		return Candidate{
			Node: writ.Node{
				ID: writ.NodeID(name), Name: name, Admission: writ.AdmissionApproved, Scheduling: writ.SchedulingOpen, Liveness: writ.LivenessReady,
				Health: writ.Health{Drivers: []writ.NodeDriver{{Module: "container"}, {Module: "network", Opens: open}}},
			}, Ports: taken,
		}
	}
	web, dns, any := Port{"tcp", 8080}, Port{"udp", 8080}, Port{"tcp", 0}
	open := []string{"192.0.2.10:80,8080"}
	taken := map[Port]string{web: "container web"}
	for _, tt := range []struct {
		name  string
		ports []Port
		nodes []Candidate
		want  string // node, or part of the error
		code  writ.Code
	}{
		{"a free port", []Port{web}, []Candidate{node("a", open, nil)}, "a", ""},
		{"the other node", []Port{web}, []Candidate{node("a", open, taken), node("b", open, nil)}, "b", ""},
		{"the node that opens it", []Port{web}, []Candidate{node("a", []string{"192.0.2.9:80"}, nil), node("b", open, nil)}, "b", ""},
		{"the other protocol", []Port{dns}, []Candidate{node("a", open, taken)}, "a", ""},
		{"any port", []Port{any, any}, []Candidate{node("a", nil, nil), node("b", open, taken)}, "b", ""},
		{"a taken port", []Port{web}, []Candidate{node("a", open, taken), node("b", nil, nil)}, "a: has port 8080/tcp published by container web; b: opens no ports", writ.CodePortTaken},
		{"a closed port", []Port{{"tcp", 81}}, []Candidate{node("a", open, nil)}, "a: does not open port 81, it opens 192.0.2.10:80,8080", writ.CodePortClosed},
		{"no open port", []Port{any}, []Candidate{node("a", nil, nil)}, "a: opens no ports", writ.CodePortClosed},
		{"a port twice in a group", []Port{web, web}, []Candidate{node("a", open, nil)}, "a: cannot publish port 8080/tcp twice", writ.CodePortTaken},
		{"a port and a label", []Port{web}, []Candidate{node("a", open, taken), func() Candidate {
			c := node("b", open, nil)
			c.Admission = writ.AdmissionRejected
			return c
		}()}, "a: has port 8080/tcp published by container web", writ.CodeNoCapacity},
	} {
		r := Request{Ports: tt.ports}
		d := Choose(r, tt.nodes)
		if tt.code == "" {
			if d.Node != writ.NodeID(tt.want) {
				t.Errorf("%s: it goes to %q, %+v", tt.name, d.Node, d.Why)
			}
			continue
		}
		if err := NoCapacity(r, d); err.Code != tt.code || !strings.Contains(err.Message, tt.want) || err.Hint == "" {
			t.Errorf("%s: %s %s", tt.name, err.Code, err.Message)
		}
	}
	if err := PortError([]Port{web}, node("a", open, taken)); err == nil || err.Code != writ.CodePortTaken || err.Message != "a has port 8080/tcp published by container web" {
		t.Errorf("on its node: %v", err)
	}
	if err := PortError([]Port{web}, node("a", open, nil)); err != nil {
		t.Errorf("a free port on its node: %v", err)
	}
}

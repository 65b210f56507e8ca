package placement

import (
	"strings"
	"testing"

	"writ"
)

func TestPortsChooseTheNode(t *testing.T) {
	node := func(name string, open []string, taken map[Port]PortUse) Candidate {
		return Candidate{
			Node: &writ.Node{
				ID: writ.NodeID(name), Name: name, Admission: writ.AdmissionApproved, Scheduling: writ.SchedulingOpen, Liveness: writ.LivenessReady,
				Health: writ.Health{Drivers: []writ.NodeDriver{{Module: "container"}, {Module: "network", Opens: open}}},
			}, Ports: taken,
		}
	}
	web, dns, any := PortRequest{Port: Port{"tcp", 8080}}, PortRequest{Port: Port{"udp", 8080}}, PortRequest{Port: Port{"tcp", 0}}
	shop, other := PortRequest{web.Port, "shop"}, PortRequest{web.Port, "other"}
	open := []string{"192.0.2.10:80,8080"}
	taken := map[Port]PortUse{web.Port: {User: "container web", Containers: 1}}
	shared := map[Port]PortUse{web.Port: {User: "container web", Containers: 2, Share: "shop"}}
	less := map[Port]PortUse{web.Port: {User: "container web-3", Containers: 1, Share: "shop"}}
	for _, tt := range []struct {
		name  string
		ports []PortRequest
		nodes []Candidate
		want  string // node, or part of the error
		code  writ.Code
	}{
		{"a free port", []PortRequest{web}, []Candidate{node("a", open, nil)}, "a", ""},
		{"the other node", []PortRequest{web}, []Candidate{node("a", open, taken), node("b", open, nil)}, "b", ""},
		{"the node that opens it", []PortRequest{web}, []Candidate{node("a", []string{"192.0.2.9:80"}, nil), node("b", open, nil)}, "b", ""},
		{"the other protocol", []PortRequest{dns}, []Candidate{node("a", open, taken)}, "a", ""},
		{"any port", []PortRequest{any, any}, []Candidate{node("a", nil, nil), node("b", open, taken)}, "b", ""},
		{"a taken port", []PortRequest{web}, []Candidate{node("a", open, taken), node("b", nil, nil)}, "a: has port 8080/tcp published by container web; b: opens no ports", writ.CodePortTaken},
		{"a closed port", []PortRequest{{Port: Port{"tcp", 81}}}, []Candidate{node("a", open, nil)}, "a: does not open port 81, it opens 192.0.2.10:80,8080", writ.CodePortClosed},
		{"no open port", []PortRequest{any}, []Candidate{node("a", nil, nil)}, "a: opens no ports", writ.CodePortClosed},
		{"a port twice in a group", []PortRequest{web, web}, []Candidate{node("a", open, nil)}, "a: cannot publish port 8080/tcp twice", writ.CodePortTaken},
		{"a shared port", []PortRequest{shop}, []Candidate{node("a", open, shared)}, "a", ""},
		{"the node with fewer containers", []PortRequest{shop}, []Candidate{node("a", open, shared), node("b", open, less)}, "b", ""},
		{"the node without any", []PortRequest{shop}, []Candidate{node("a", open, shared), node("b", open, less), node("c", open, nil)}, "c", ""},
		{"a shared port twice in a group", []PortRequest{shop, shop}, []Candidate{node("a", open, shared)}, "a", ""},
		{"a port that others share", []PortRequest{web}, []Candidate{node("a", open, shared)}, "a: has port 8080/tcp published by container web", writ.CodePortTaken},
		{"a port with another name", []PortRequest{other}, []Candidate{node("a", open, shared)}, "a: has port 8080/tcp published by container web", writ.CodePortTaken},
		{"a port that cannot be shared", []PortRequest{shop}, []Candidate{node("a", open, taken)}, "a: has port 8080/tcp published by container web", writ.CodePortTaken},
		{"a group that shares and does not", []PortRequest{shop, web}, []Candidate{node("a", open, nil)}, "a: cannot publish port 8080/tcp twice", writ.CodePortTaken},
		{"a port and a label", []PortRequest{web}, []Candidate{node("a", open, taken), func() Candidate {
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
	if err := PortError([]PortRequest{web}, new(node("a", open, taken))); err == nil || err.Code != writ.CodePortTaken || err.Message != "a has port 8080/tcp published by container web" {
		t.Errorf("on its node: %v", err)
	}
	if err := PortError([]PortRequest{web}, new(node("a", open, nil))); err != nil {
		t.Errorf("a free port on its node: %v", err)
	}
}

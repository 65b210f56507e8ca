package placement

import (
	"strings"
	"testing"

	"writ"
)

func TestDevicesChooseTheNode(t *testing.T) {
	t.Parallel()
	node := func(name string, devices ...string) Candidate {
		return Candidate{Node: &writ.Node{
			ID: writ.NodeID(name), Name: name, Admission: writ.AdmissionApproved, Scheduling: writ.SchedulingOpen, Liveness: writ.LivenessReady,
			Health: writ.Health{Drivers: []writ.NodeDriver{{Module: "network"}, {Module: "container", Devices: devices}}},
		}}
	}
	changed := func(c Candidate, change func(*Candidate)) Candidate {
		change(&c)
		return c
	}
	simulated := func(c *Candidate) { c.Drivers[1].Simulated = true }
	for _, tt := range []struct {
		name    string
		devices []string
		nodes   []Candidate
		want    string // node, or part of the error
		code    writ.Code
	}{
		{"none", nil, []Candidate{node("a"), node("b", "kvm")}, "a", ""},
		{"the node that offers it", []string{"kvm"}, []Candidate{node("a", "tpm"), node("b", "kvm")}, "b", ""},
		{"the node that offers all", []string{"kvm", "tpm"}, []Candidate{node("a", "tpm"), node("b", "kvm"), node("c", "kvm", "tpm", "x")}, "c", ""},
		{"a group that names it twice", []string{"kvm", "kvm"}, []Candidate{node("a", "kvm")}, "a", ""},
		{"an unknown node", []string{"kvm"}, []Candidate{changed(node("a"), func(c *Candidate) { c.Drivers = nil })}, "a", ""},
		{"a simulated driver", []string{"kvm"}, []Candidate{changed(node("a"), simulated)}, "a", ""},
		{"a simulated driver with devices", []string{"kvm"}, []Candidate{changed(node("a", "tpm"), simulated)}, "does not offer the device kvm", writ.CodeDeviceForbidden},
		{"no node", []string{"kvm", "tpm", "x"}, []Candidate{node("a", "tpm", "y"), node("b")},
			"a: does not offer the devices kvm, x, it offers tpm, y; b: does not offer the devices kvm, tpm, x, it offers none", writ.CodeDeviceForbidden},
		{"many devices", []string{"x"}, []Candidate{node("a", strings.Split("abcdefghij", "")...)}, "it offers a, b, c, d, e, f, g, h and 2 more", writ.CodeDeviceForbidden},
		{"no node, for several reasons", []string{"kvm"}, []Candidate{node("a"), changed(node("b", "kvm"), func(c *Candidate) { c.Admission = writ.AdmissionRejected })},
			"a: does not offer the device kvm, it offers none; b: is rejected", writ.CodeNoCapacity},
	} {
		r := Request{Devices: tt.devices}
		d := Choose(r, tt.nodes)
		if tt.code == "" {
			if d.Node != writ.NodeID(tt.want) {
				t.Errorf("%s: it goes to %q, %+v", tt.name, d.Node, d.Why)
			}
			continue
		}
		err := NoCapacity(r, d)
		if d.Node != "" || d.Later || err.Code != tt.code || !strings.Contains(err.Message, tt.want) || !strings.Contains(err.Hint, "--device") {
			t.Errorf("%s: %q, %v, hint %q", tt.name, d.Node, err, err.Hint)
		}
	}
	here := node("a", "tpm")
	on := &here
	if err := PartError(false, []string{"tpm"}, on); err != nil {
		t.Error(err)
	}
	if err := PartError(false, []string{"kvm"}, on); writ.CodeOf(err) != writ.CodeDeviceForbidden || err.Message != "a does not offer the device kvm, it offers tpm" {
		t.Error(err)
	}
}

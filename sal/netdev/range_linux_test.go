package netdev

import (
	"net/netip"
	"strings"
	"testing"

	"writ"
	"writ/sal"
)

// A script that requests a used range learns the user's name only within its own project.
//
// Promise: Readers and roles: An error about an occupied address range names no network of another project.
// How: The driver compares projects.
func TestUsedRangeHidesTheOtherProject(t *testing.T) {
	record := func(project writ.ProjectID, name string) *sal.Record[network] {
		return &sal.Record[network]{
			Resource: writ.ResourceID{Project: project, Kind: writ.KindNetwork, Name: name}, Spec: map[string]any{"ipv4": "10.7.0.0/24"},
		}
	}
	n := &networks{}
	for project, told := range map[writ.ProjectID]bool{"mine": true, "others": false} {
		err := n.requireFreeRange(record("mine", "new"), []*sal.Record[network]{record(project, "canary")}, []netip.Prefix{})
		if writ.CodeOf(err) != writ.CodeResourceConflict || strings.Contains(err.Error(), "canary") != told {
			t.Errorf("taken by one of %s: %v", project, err)
		}
	}
}

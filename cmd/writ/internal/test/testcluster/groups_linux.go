package testcluster

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"writ/internal/cgroup"
	"writ/internal/test/testenv"
)

// Groups removes the control groups that a node's drivers create, at the end of the test; see testenv.Cgroup. data is
// the node's data directory. The groups of containers end with their daemon.
func Groups(t testing.TB, data string) {
	t.Helper()
	for _, g := range groupsOf(data) {
		testenv.Cgroup(t, g.Name)
	}
}

// GroupsIn returns the names of the control groups that the drivers of a node have, in order.
func GroupsIn(t testing.TB, data string) (names []string) {
	t.Helper()
	for _, g := range groupsOf(data) {
		groups, err := g.All()
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range slices.Sorted(maps.Keys(groups)) {
			names = append(names, g.Name+"/"+name)
		}
	}
	return names
}

func groupsOf(data string) (all []*cgroup.Groups) {
	for _, module := range []string{"herodb", "machine"} {
		all = append(all, cgroup.Of(module, filepath.Join(data, "host", module)))
	}
	return all
}

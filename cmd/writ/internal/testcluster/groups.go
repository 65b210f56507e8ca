package testcluster

import (
	"path/filepath"
	"testing"

	"writ/internal/cgroup"
	"writ/internal/testenv"
)

// Groups has the control groups removed that the drivers of a node make which keeps its data in a directory; see testenv.Cgroup. Those of containers
// go with their daemon.
func Groups(t testing.TB, data string) {
	t.Helper()
	for _, g := range groupsOf(data) {
		testenv.Cgroup(t, g.Name)
	}
}

func groupsOf(data string) (all []*cgroup.Groups) {
	for _, module := range []string{"herodb", "machine"} {
		all = append(all, cgroup.Of(module, filepath.Join(data, "host", module)))
	}
	return all
}

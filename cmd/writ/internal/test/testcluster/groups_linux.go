package testcluster

import (
	"path/filepath"
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

func groupsOf(data string) (all []*cgroup.Groups) {
	for _, module := range []string{"herodb", "machine"} {
		all = append(all, cgroup.Of(module, filepath.Join(data, "host", module)))
	}
	return all
}

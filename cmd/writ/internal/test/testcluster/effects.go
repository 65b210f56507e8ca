package testcluster

import (
	"path/filepath"
	"strings"

	"writ"
	"writ/sal/simulated"
)

// Effects counts the effects of simulated drivers on some nodes, by job key.
func (w *Workspace) Effects(nodes ...string) map[string]int {
	w.T.Helper()
	counts := map[string]int{}
	for _, node := range nodes {
		effects, err := simulated.ReadEffects(filepath.Join(w.Dir, node, "host", "simulated"))
		if err != nil {
			w.T.Fatal(err)
		}
		for _, e := range effects {
			counts[e.Key]++
		}
	}
	return counts
}

// Done counts the jobs of a run that took effect on some nodes.
func (w *Workspace) Done(id writ.RunID, nodes ...string) (n int) {
	w.T.Helper()
	for key := range w.Effects(nodes...) {
		if strings.HasPrefix(key, string(id)) {
			n++
		}
	}
	return n
}

// OnceEach fails the test unless exactly `want` jobs of a run took effect, each once.
func (w *Workspace) OnceEach(id writ.RunID, want int, nodes ...string) {
	w.T.Helper()
	have := 0
	for key, n := range w.Effects(nodes...) {
		if !strings.HasPrefix(key, string(id)) {
			continue
		}
		have++
		if n != 1 {
			w.T.Errorf("%s took effect %d times", key, n)
		}
	}
	if have != want {
		w.T.Errorf("%d jobs of run %s took effect, want %d", have, id, want)
	}
}

package collect

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"writ"
	"writ/internal/test/testenv"
	"writ/runner/queue"
	"writ/supervisor/nodes"
)

// Two readers of one stream would each get a part of its messages.
func TestEachNodeHasOneReader(t *testing.T) {
	testenv.CheckProperty(t, func(t *rapid.T) {
		g := newGroups()
		started := 0
		g.run(func(*group) { started++ })
		home := map[writ.NodeID]int{} // group of each serving node
		for range rapid.IntRange(1, 6).Draw(t, "changes") {
			serving := make([]writ.NodeID, 0, 300)
			for i := range 300 {
				if rapid.IntRange(0, 2).Draw(t, "serves") > 0 {
					serving = append(serving, writ.NodeID(fmt.Sprintf("n%03d", i)))
				}
			}
			now := map[writ.NodeID]int{}
			for i := 0; i < len(g.all); i++ {
				streams := g.streams(g.all[i], func() []writ.NodeID { return serving })
				if len(streams) > maxGroup {
					t.Errorf("group %d has %d nodes", i, len(streams))
				}
				for _, s := range streams {
					if phase, _ := nodes.BeatPhase(s.Node); i > 0 && phase != g.all[i].phase {
						t.Errorf("group %d of phase %d has a node of phase %d", i, g.all[i].phase, phase)
					}
					if other, twice := now[s.Node]; twice || s.Direction != queue.Out {
						t.Errorf("%v is read by the groups %d and %d", s, other, i)
					}
					now[s.Node] = i
					if was, known := home[s.Node]; known && was != i {
						t.Errorf("%s moved from group %d to %d", s.Node, was, i)
					}
				}
			}
			for _, node := range serving {
				if _, has := now[node]; !has {
					t.Errorf("%s has no reader", node)
				}
			}
			if len(now) != len(serving) || started != len(g.all) {
				t.Errorf("%d of %d nodes are read; %d readers of %d groups", len(now), len(serving), started, len(g.all))
			}
			home = now
		}
	})
}

// Nodes join while several readers ask for their streams. A node that left its group and joined another one would have
// two readers for a moment.
func TestNodeKeepsItsReaderWhileOthersJoin(t *testing.T) {
	var mu sync.Mutex
	var serving []writ.NodeID
	listServing := func() []writ.NodeID {
		mu.Lock()
		defer mu.Unlock()
		return serving
	}
	home := map[writ.NodeID]*group{}
	g, joined := newGroups(), make(chan struct{})
	var readers sync.WaitGroup
	read := func(one *group) {
		for over := false; !over; {
			select {
			case <-joined:
				over = true
			default:
			}
			streams := g.streams(one, listServing)
			mu.Lock()
			for _, s := range streams {
				if was := home[s.Node]; was != nil && was != one {
					t.Errorf("%s has a second reader", s.Node)
				}
				home[s.Node] = one
			}
			mu.Unlock()
		}
	}
	g.run(func(one *group) { readers.Go(func() { read(one) }) })
	for i := range 1000 {
		node := writ.NodeID(fmt.Sprintf("n%d", (i*7919)%1000)) // sorted among the earlier nodes
		mu.Lock()
		at, _ := slices.BinarySearch(serving, node)
		serving = slices.Insert(slices.Clone(serving), at, node)
		mu.Unlock()
		runtime.Gosched()
	}
	close(joined)
	readers.Wait()
	if len(home) != 1000 {
		t.Errorf("%d of 1000 nodes have a reader", len(home))
	}
}

// The silence of a node counts only if its messages could arrive.
func TestARoundIncludesEachGroup(t *testing.T) {
	g := newGroups()
	var serving []writ.NodeID // of one phase, so that they have two groups
	for i := 0; len(serving) < 2*maxGroup; i++ {
		node := writ.NodeID(fmt.Sprintf("n%05d", i))
		if phase, _ := nodes.BeatPhase(node); phase == 0 {
			serving = append(serving, node)
		}
	}
	g.run(func(*group) {})
	first := g.all[0]
	g.complete(first)
	g.complete(first)
	g.streams(first, func() []writ.NodeID { return serving })
	second := g.all[1]
	var got []int64
	for _, one := range []*group{first, first, second, second, first} {
		g.complete(one)
		got = append(got, g.completed())
	}
	if want := []int64{2, 2, 3, 3, 4}; !slices.Equal(got, want) {
		t.Errorf("rounds = %v, want %v", got, want)
	}
}

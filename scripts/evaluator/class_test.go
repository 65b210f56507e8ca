package evaluator

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
)

func TestSlotsLimitEachClass(t *testing.T) {
	for name, test := range map[string]struct {
		most int
		used [classes]int // quick, compiling, slow
		want [classes]bool
	}{
		"two are idle":                  {2, [classes]int{0, 0, 0}, [classes]bool{true, true, true}},
		"one is quick":                  {2, [classes]int{1, 0, 0}, [classes]bool{true, true, true}},
		"two are quick":                 {2, [classes]int{2, 0, 0}, [classes]bool{false, false, false}},
		"one is slow":                   {2, [classes]int{0, 0, 1}, [classes]bool{true, true, false}},
		"a slow one leaves one quick":   {2, [classes]int{1, 0, 1}, [classes]bool{false, true, false}},
		"long work leaves one quick":    {2, [classes]int{0, 1, 1}, [classes]bool{true, false, false}},
		"all are in use":                {2, [classes]int{1, 1, 1}, [classes]bool{false, false, false}},
		"the only one is idle":          {1, [classes]int{0, 0, 0}, [classes]bool{true, true, true}},
		"the only one is quick":         {1, [classes]int{1, 0, 0}, [classes]bool{false, false, false}},
		"the only one is slow":          {1, [classes]int{0, 0, 1}, [classes]bool{true, true, false}},
		"slow ones have half of eight":  {8, [classes]int{0, 0, 4}, [classes]bool{true, true, false}},
		"compilations have two of them": {8, [classes]int{0, 2, 0}, [classes]bool{true, false, true}},
	} {
		s := slots{most: test.most, used: test.used}
		got := [classes]bool{s.free(quick), s.free(compiling), s.free(slow)}
		if got != test.want {
			t.Errorf("%s: free = %v, want %v", name, got, test.want)
		}
		if full := got == [classes]bool{}; s.full() != full {
			t.Errorf("%s: full = %v, want %v", name, s.full(), full)
		}
	}
}

func TestCostsSeparateCompiling(t *testing.T) {
	const ms = time.Millisecond
	p := writ.Digest{1}
	var c costs
	if got := c.pass(p, 100, false); got != newTakes {
		t.Errorf("a small new program is expected to take %v, want %v", got, newTakes)
	}
	if got := c.pass(p, 300_000, false); got != 300*ms {
		t.Errorf("a big new program is expected to take %v, want its compilation", got)
	}
	c.record(p, 3*ms, 200*ms)
	if got := c.pass(p, 300_000, true); got != 3*ms {
		t.Errorf("expected time of a compiled program = %v, want the time of its pass", got)
	}
	if got := c.pass(p, 300_000, false); got != 203*ms {
		t.Errorf("a program that is not compiled is expected to take %v, want compilation and pass", got)
	}
	if c.slow(p) {
		t.Error("a program that takes long to compile counts as slow")
	}
	c.recordCompile(p, 1)
	if got := c.compile(p, 300_000); got < roundTime {
		t.Errorf("a child's report makes the compilation of 300 KB take %v", got)
	}

	c.record(p, 40*ms, 0)
	var slow []bool
	for range 4 {
		slow = append(slow, c.slow(p))
		c.record(p, ms, 0)
	}
	if diff := cmp.Diff([]bool{true, true, false, false}, slow); diff != "" {
		t.Errorf("slow after 0, 1, 2, 3 quick passes (-want +got):\n%s", diff)
	}

	c.recordPlan(p, 90*ms)
	if c.slow(p) || c.plan(p, 10) != 90*ms {
		t.Errorf("after a slow plan: passes are slow: %v; a plan is expected to take %v", c.slow(p), c.plan(p, 10))
	}
	if got := c.plan(writ.Digest{2}, 300_000); got != 300*ms {
		t.Errorf("the plan of a big new program is expected to take %v, want its compilation", got)
	}
}

func TestRecentProgramsFitTheirMemory(t *testing.T) {
	var r recent[int]
	for i := range keptPrograms + 2 {
		r.add(writ.Digest{byte(i)}, 100, i)
		r.find(writ.Digest{0})
	}
	if _, found := r.find(writ.Digest{0}); !found || len(r.list) != keptPrograms || r.has(writ.Digest{1}) || !r.has(writ.Digest{3}) {
		t.Errorf("%d programs; used program is held: %v", len(r.list), found)
	}
	for i := range 5 {
		r.add(writ.Digest{1, byte(i)}, keptSource/3, i)
	}
	if len(r.list) != 3 || r.size > keptSource || !r.has(writ.Digest{1, 4}) || r.has(writ.Digest{1, 1}) {
		t.Errorf("%d programs with %d bytes", len(r.list), r.size)
	}
	r.add(writ.Digest{2}, 2*keptSource, 7)
	if got, found := r.find(writ.Digest{2}); got != 7 || !found || len(r.list) != 1 {
		t.Errorf("a program above the limit: %d, %v, with %d others", got, found, len(r.list)-1)
	}
}

package loads

import (
	"fmt"
	"testing"
	"time"

	"writ"
	"writ/supervisor/link"
	"writ/supervisor/nodes"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// uid returns the UID of a number.
func uid(n int) writ.UID { return writ.UID(fmt.Sprintf("0192f6c2-7d3a-7000-9000-%012d", n)) }

// report applies a report of a node with one load.
func (b *Book) report(node writ.NodeID, count int64, at time.Time, l nodes.Load) {
	b.Apply(nodes.LoadReport{Node: node, Incarnation: 1, Count: count, Epoch: 1, Loads: []nodes.Load{l}}, 1, at)
}

// of returns the load of a resource, with samples.
func (b *Book) of(node writ.NodeID, n int, at time.Time) (link.Load, bool) {
	list := b.Answer(link.Loads{Of: []link.LoadOf{{Node: node, UID: uid(n)}}, Samples: true}, at)
	if len(list.Loads) != 1 {
		return link.Load{}, false
	}
	return list.Loads[0], true
}

func TestSamplesCoverADay(t *testing.T) {
	t.Parallel()
	b := New()
	now := start
	for i := range 2 * 2 * 60 * 30 { // 30 hours, with a report every half minute and one more that is new again
		cpus := int64(100)
		if i%10 == 9 {
			cpus = 1100
		}
		b.report("n", int64(i+1), now, nodes.Load{UID: uid(1), Running: true, MilliCPUs: cpus, Memory: int64(i%10) << 20, Restarts: 2})
		now = now.Add(30 * time.Second)
	}
	now = now.Add(-30 * time.Second)
	l, ok := b.of("n", 1, now)
	if !ok || !l.At.Equal(now) || !l.Running || l.Restarts != 2 || l.MilliCPUs != 1100 {
		t.Fatalf("%+v, %t", l, ok)
	}
	if n := len(l.Samples); n < maxSamples-1 || n > maxSamples+1 {
		t.Fatalf("got %d samples", n)
	}
	for i, s := range l.Samples[:len(l.Samples)-1] {
		if s.MilliCPUs != 200 || s.MemoryBytes != 9<<20 || i > 0 && s.At.Sub(l.Samples[i-1].At) != sampleEvery {
			t.Fatalf("sample %d is %+v", i, s)
		}
	}
	if age := now.Sub(l.Samples[0].At); age < keepFor-sampleEvery || age > keepFor+2*sampleEvery {
		t.Errorf("the first sample is %s old", age)
	}
}

// A gap has no samples, and the resource is forgotten after a day without a report.
func TestGapHasNoSamples(t *testing.T) {
	t.Parallel()
	b := New()
	b.report("n", 1, start, nodes.Load{UID: uid(1), MilliCPUs: 10})
	later := start.Add(20 * time.Hour)
	b.report("n", 2, later, nodes.Load{UID: uid(1), MilliCPUs: 30})
	if l, _ := b.of("n", 1, later); len(l.Samples) != 2 || l.Samples[1].MilliCPUs != 30 || !l.Samples[1].At.Equal(later) {
		t.Errorf("%+v", l)
	}
	if l, _ := b.of("n", 1, later.Add(5*time.Hour)); len(l.Samples) != 1 {
		t.Errorf("a sample is older than a day: %+v", l)
	}
	b.report("n", 3, later.Add(25*time.Hour), nodes.Load{UID: uid(2)})
	if l, ok := b.of("n", 1, later.Add(25*time.Hour)); ok || b.histories != 1 {
		t.Errorf("it is still known: %+v, %d histories", l, b.histories)
	}
	b.report("other", 1, later.Add(80*time.Hour), nodes.Load{UID: uid(2)})
	if len(b.nodes) != 1 || b.histories != 1 {
		t.Errorf("%d nodes and %d histories, want 1 and 1", len(b.nodes), b.histories)
	}
}

func TestReportsThatAreNotNewAreIgnored(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]nodes.LoadReport{
		"repeated":            {Node: "n", Incarnation: 2, Count: 5, Epoch: 3},
		"earlier":             {Node: "n", Incarnation: 2, Count: 4, Epoch: 3},
		"earlier incarnation": {Node: "n", Incarnation: 1, Count: 9, Epoch: 3},
		"earlier epoch":       {Node: "n", Incarnation: 2, Count: 6, Epoch: 2},
	} {
		b := New()
		b.Apply(nodes.LoadReport{Node: "n", Incarnation: 2, Count: 5, Epoch: 3, Loads: []nodes.Load{{UID: uid(1), MilliCPUs: 7}}}, 3, start)
		r.Loads = []nodes.Load{{UID: uid(1), MilliCPUs: 8}}
		b.Apply(r, 3, start)
		if l, _ := b.of("n", 1, start); l.MilliCPUs != 7 {
			t.Errorf("a report that is %s counted: %+v", name, l)
		}
	}
}

// A node may report any data. Its reports count for its own resources only, and use a limited amount of memory.
func TestHostileNodeIsLimited(t *testing.T) {
	t.Parallel()
	b := New()
	b.report("n", 1, start, nodes.Load{UID: uid(1), MilliCPUs: 1 << 62, Memory: -5, Restarts: -1})
	b.report("n", 2, start.Add(time.Second), nodes.Load{UID: uid(1), MilliCPUs: 1 << 62, Memory: 1 << 62})
	l, _ := b.of("n", 1, start)
	if l.MilliCPUs != mostMilliCPUs || l.MemoryBytes != mostMemory || l.Restarts != 0 || l.Samples[0].MilliCPUs != mostMilliCPUs {
		t.Errorf("%+v", l)
	}
	if l, ok := b.of("m", 1, start); ok {
		t.Errorf("node n spoke for node m: %+v", l)
	}
	now, next := start, 0
	for count := range 20 {
		r := nodes.LoadReport{Node: "n", Incarnation: 2, Count: int64(count + 1), Epoch: 1, Loads: []nodes.Load{{UID: "not a uid"}}}
		for range 2 * nodes.MaxLoads {
			next++
			r.Loads = append(r.Loads, nodes.Load{UID: uid(next)})
		}
		now = now.Add(time.Second)
		b.Apply(r, 1, now)
		if n := len(b.nodes["n"].resources); n > maxOfNode || b.histories > n {
			t.Fatalf("after %d reports the node has %d resources with %d histories", count+1, n, b.histories)
		}
	}
	if _, known := b.nodes["n"].resources["not a uid"]; known {
		t.Error("an invalid UID is stored")
	}
}

// An answer has its resources in the order of the request, and samples only for the first ones.
func TestAnswerIsLimited(t *testing.T) {
	t.Parallel()
	b := New()
	r := nodes.LoadReport{Node: "n", Incarnation: 1, Count: 1, Epoch: 1}
	asked := link.Loads{Samples: true}
	for i := range link.MaxLoads + 10 {
		r.Loads = append(r.Loads, nodes.Load{UID: uid(i), MilliCPUs: int64(i)})
		asked.Of = append(asked.Of, link.LoadOf{Node: "n", UID: uid(i)})
	}
	b.Apply(r, 1, start)
	list := b.Answer(asked, start)
	if len(list.Loads) != link.MaxLoads {
		t.Fatalf("the answer has %d loads", len(list.Loads))
	}
	for i, l := range list.Loads {
		if l.UID != uid(i) || (len(l.Samples) > 0) != (i < link.MaxSampled) {
			t.Fatalf("load %d is %+v", i, l)
		}
	}
	if list := b.Answer(link.Loads{Of: []link.LoadOf{{Node: "n", UID: "x"}}}, start); list.Loads == nil || len(list.Loads) != 0 {
		t.Errorf("%+v", list)
	}
}

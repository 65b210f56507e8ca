package tally

import (
	"maps"
	"testing"
	"time"
)

func TestDurationsAreCountedInTheirBucket(t *testing.T) {
	var of DurationsOf[string]
	for _, took := range []time.Duration{0, time.Millisecond, time.Millisecond + 1, time.Second, 2 * time.Hour} {
		of.Note("write", took)
	}
	s := of.All()["write"]
	if s.Count != 5 || s.Sum != 2*time.Hour+time.Second+2*time.Millisecond+1 {
		t.Errorf("%d durations of %s", s.Count, s.Sum)
	}
	for limit, want := range map[time.Duration]uint64{time.Millisecond: 2, 4 * time.Millisecond: 3, 250 * time.Millisecond: 3, time.Second: 4, time.Hour: 4} {
		if got := s.Upto[limit]; got != want {
			t.Errorf("%d took %s or less, want %d", got, limit, want)
		}
	}
}

func TestCountsAndMomentsBeginWithNothing(t *testing.T) {
	var counts Counts[string]
	var moment Moment
	if len(counts.All()) != 0 || !moment.Last().IsZero() {
		t.Error("something has happened already")
	}
	counts.Add("a")
	counts.Add("b")
	counts.Add("a")
	if got := counts.All(); !maps.Equal(got, map[string]int64{"a": 2, "b": 1}) || counts.Total() != 3 {
		t.Errorf("the counts are %v", got)
	}
	at := time.Now()
	if moment.Note(at); !moment.Last().Equal(at) {
		t.Errorf("it happened last at %s, want %s", moment.Last(), at)
	}
}

package misuse

import (
	"testing"
	"testing/synctest"
	"time"

	"writ"
)

func TestNodeAboveItsLimitIsTakenOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := New()
		c.Count("a", Unreadable, limits[Unreadable].most)
		c.Count("b", ExtraReports, limits[ExtraReports].most)
		if got := c.Take(); len(got) != 0 {
			t.Fatalf("nodes at their limit are taken: %v", got)
		}
		time.Sleep(period + 1)
		c.Count("b", ExtraReports, 1)
		if got := c.Take(); len(got) != 0 {
			t.Fatalf("counts of the last period are kept: %v", got)
		}
		c.Count("a", Unasked, limits[Unasked].most+1)
		c.Block("c", writ.Errorf(writ.CodeNodeCopied, "copied"))
		select {
		case <-c.Exceeded():
		default:
			t.Error("no signal")
		}
		got := c.Take()
		if len(got) != 2 || got["a"].Code != writ.CodeQueueBudget || got["c"].Code != writ.CodeNodeCopied {
			t.Errorf("taken: %v", got)
		}
		if got := c.Take(); len(got) != 0 {
			t.Errorf("taken again: %v", got)
		}
	})
}

func TestNilCounterCountsNothing(t *testing.T) {
	t.Parallel()
	var c *Counter
	c.Count("a", Unreadable, 1<<30)
	c.Block("a", nil)
}

package supervisor_test

import (
	"fmt"
	"testing"
	"time"

	"writ"
)

// TestAResourceGoesFromHandToHand lets many runs wait for the same resource: each gets it as soon as the one before it is done with it, and
// not when the watch looks.
func TestAResourceGoesFromHandToHand(t *testing.T) {
	inSite(t, func(t *testing.T, s *site) {
		s.join("n1", slowly(100*time.Millisecond))
		const runs = 40
		var ids []writ.RunID
		for i := range runs {
			ids = append(ids, s.submit(fmt.Sprintf("volume := import(%q)\nvolume.create(%q, {size_gib: 1})\n// %d\n", "volume", "v", i)))
		}
		begun := time.Now()
		for _, id := range ids {
			s.wantState(id, writ.RunSucceeded)
		}
		if took := time.Since(begun); took > runs/2*time.Second {
			t.Errorf("%d runs that follow each other took %s: they waited for the watch", runs, took)
		}
	})
}

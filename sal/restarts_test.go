package sal

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRestartDelaysGrowToALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pauses := Pauses{Free: 2, First: 30 * time.Second, Longest: 10 * time.Minute, Steady: 20 * time.Minute}
		var s Restarts
		var all []time.Duration
		for range 9 {
			pause := time.Until(s.Due("a", pauses))
			all = append(all, pause)
			time.Sleep(pause / 2)
			if left := time.Until(s.Due("a", pauses)); left != pause/2 {
				t.Errorf("after %v of %v, %v are left", pause/2, pause, left)
			}
			time.Sleep(pause / 2)
			s.Began("a")
		}
		want := []time.Duration{0, 0, pauses.First, time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, pauses.Longest, pauses.Longest}
		if diff := cmp.Diff(want, all); diff != "" {
			t.Error(diff)
		}
		time.Sleep(pauses.Steady + 1)
		if pause := time.Until(s.Due("a", pauses)); pause != 0 {
			t.Errorf("after a steady run, the pause is %v", pause)
		}
	})
}

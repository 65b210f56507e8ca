package supervisor

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"writ"
	"writ/identity"
	"writ/internal/test/testenv"
	"writ/supervisor/journal"
)

// TestANodeIsLostOnceItWasNotHeardForItsTime has looks come at any times, and the setting change between them: a node is lost exactly once, when it was not
// heard for as long as the setting says then, and ready until it is silent.
func TestANodeIsLostOnceItWasNotHeardForItsTime(t *testing.T) {
	testenv.CheckProperty(t, func(t *rapid.T) {
		f := &fleet{keys: make(map[string]writ.NodeID), nodes: make(map[writ.NodeID]*member)}
		f.put(journal.Node{Node: writ.Node{ID: "n"}})
		now := time.Now()
		f.beat(writ.Beat{Node: "n", Sequence: 1}, 1, now, now)
		var quiet time.Duration
		lost, wasSilent := false, false
		var silence identity.Silence
		for range rapid.IntRange(1, 60).Draw(t, "looks") {
			if silence == (identity.Silence{}) || rapid.IntRange(0, 9).Draw(t, "changes") == 0 {
				silent := rapid.IntRange(3, 30).Draw(t, "silent")
				silence = identity.Silence{Silent: time.Duration(silent) * time.Second, Lost: time.Duration(max(15, silent*rapid.IntRange(2, 5).Draw(t, "lost"))) * time.Second}
				if err := silence.Check(); err != nil {
					t.Fatal(err)
				}
				f.setSilence(silence)
			}
			listened := time.Duration(rapid.IntRange(0, 2000).Draw(t, "listened")) * time.Millisecond
			now, quiet = now.Add(listened), quiet+listened
			told := f.tick(now, now, listened)
			if due := quiet >= silence.Lost && !lost; (len(told) == 1) != due {
				t.Fatalf("not heard for %s of %s: %d are lost", quiet, silence.Lost, len(told))
			}
			lost, wasSilent = lost || len(told) == 1, wasSilent || quiet >= silence.Silent
			want := writ.LivenessReady
			switch {
			case lost:
				want = writ.LivenessLost
			case wasSilent:
				want = writ.LivenessSilent
			}
			if n, _ := f.Get("n"); n.Liveness != want {
				t.Fatalf("not heard for %s it is %s, want %s of %+v", quiet, n.Liveness, want, silence)
			}
		}
	})
}

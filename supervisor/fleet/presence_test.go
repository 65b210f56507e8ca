package fleet

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"writ"
	"writ/identity"
	"writ/internal/test/testenv"
	"writ/supervisor/journal"
)

// Scans come at any times, and the limits change between them. A node is ready until it is silent, and is lost once,
// when its silence reaches the limit in force. A node cannot extend its limit beyond three beats of 5 s.
func TestSilentNodeIsLostOnce(t *testing.T) {
	testenv.CheckProperty(t, func(t *rapid.T) {
		now := time.Now()
		f := New(nil, nil, now)
		f.Members.Put(journal.Node{Node: writ.Node{ID: "n"}})
		every := rapid.Int64Range(-1, 9).Draw(t, "every")
		f.Presence.Beat(writ.Beat{Node: "n", Sequence: 1, Every: every}, 1, now, now)
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
				f.Presence.SetSilence(silence)
			}
			listened := time.Duration(rapid.IntRange(0, 2000).Draw(t, "listened")) * time.Millisecond
			now, quiet = now.Add(listened), quiet+listened
			told := f.Tick(now, now, listened)
			if due := quiet >= silence.Lost && !lost; (len(told) == 1) != due {
				t.Fatalf("not heard for %s of %s: %d are lost", quiet, silence.Lost, len(told))
			}
			lost, wasSilent = lost || len(told) == 1, wasSilent || quiet >= max(silence.Silent, 3*time.Second*time.Duration(min(every, 5)))
			want := writ.LivenessReady
			switch {
			case lost:
				want = writ.LivenessLost
			case wasSilent:
				want = writ.LivenessSilent
			}
			if n, _ := f.Members.Get("n"); n.Liveness != want {
				t.Fatalf("not heard for %s it is %s, want %s of %+v", quiet, n.Liveness, want, silence)
			}
		}
	})
}

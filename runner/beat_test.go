package runner

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"writ"
	"writ/internal/test/testenv"
	"writ/supervisor/nodes"
)

// Beats of a node follow each other after a second, at the phase that the supervisor expects, also if a timer ends
// early or late.
func TestBeatsFollowTheirPhase(t *testing.T) {
	testenv.CheckProperty(t, func(t *rapid.T) {
		node := writ.NodeID(rapid.StringN(0, 40, 40).Draw(t, "node"))
		of, phase := nodes.BeatPhase(node)
		if of < 0 || of >= nodes.BeatPhases || phase != time.Duration(of)*time.Second/nodes.BeatPhases {
			t.Fatalf("phase %d at %s", of, phase)
		}
		now := time.UnixMicro(rapid.Int64Range(0, 1<<50).Draw(t, "start"))
		for beat := range 5 {
			next := now.Add(untilPhase(now, phase))
			if pause := next.Sub(now); pause < beatEvery/8 || pause > beatEvery+beatEvery/8 {
				t.Errorf("beat %d follows after %s", beat, pause)
			}
			if offset := next.Sub(next.Truncate(time.Second)); offset != phase {
				t.Errorf("beat %d is at %s of a second, want %s", beat, offset, phase)
			}
			now = next.Add(time.Duration(rapid.Int64Range(-1000, 20_000).Draw(t, "late")) * time.Microsecond)
		}
	})
}

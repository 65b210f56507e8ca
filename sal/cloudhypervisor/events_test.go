package cloudhypervisor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A process that somebody took over may write what it likes, and as much of it.
func TestWhatIsNoEventIsPassedOverInPieces(t *testing.T) {
	const rebooted = `{"source":"vm","event":"rebooted"}`
	path := filepath.Join(t.TempDir(), "events")
	for name, tt := range map[string]struct {
		text    string
		until   int
		reboots int
	}{
		"events":               {rebooted + rebooted, 2 * len(rebooted), 2},
		"one that is cut off":  {rebooted + rebooted[:9], len(rebooted), 1},
		"a text without end":   {rebooted + `"` + strings.Repeat("a", 3*maxEvents), len(rebooted) + 3*maxEvents, 1},
		"not yet much of that": {`"` + strings.Repeat("a", maxEvents/2), 0, 0},
	} {
		if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := heard{}.hear(path)
		if err != nil || got.Until != int64(tt.until) || got.Reboots != tt.reboots {
			t.Errorf("%s: %+v, %v; want %d reboots until %d", name, got, err, tt.reboots, tt.until)
		}
	}
}

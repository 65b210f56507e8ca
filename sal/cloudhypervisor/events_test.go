package cloudhypervisor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A compromised process may write any events, and any number of them.
func TestInvalidEventsAreSkippedInPieces(t *testing.T) {
	const rebooted = `{"source":"vm","event":"rebooted"}`
	path := filepath.Join(t.TempDir(), "events")
	for name, tt := range map[string]struct {
		text    string
		until   int
		reboots int
	}{
		"events":               {rebooted + rebooted, 2 * len(rebooted), 2},
		"a truncated event":    {rebooted + rebooted[:9], len(rebooted), 1},
		"a text without end":   {rebooted + `"` + strings.Repeat("a", 3*maxEvents), len(rebooted) + 3*maxEvents, 1},
		"not yet much of that": {`"` + strings.Repeat("a", maxEvents/2), 0, 0},
	} {
		if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := heard{}.readEvents(path)
		if err != nil || got.Until != int64(tt.until) || got.Reboots != tt.reboots {
			t.Errorf("%s: %+v, %v; want %d reboots until %d", name, got, err, tt.reboots, tt.until)
		}
	}
}

// A guest that turned itself off stays off, even if its process was terminated before the next run of Keep. A process
// that is terminated while its guest works writes the same events, but all at once.
func TestGuestOffBeforeProcessEndStaysOff(t *testing.T) {
	at := func(secs, nanos int, source, name string) string {
		return fmt.Sprintf(`{"timestamp":{"secs":%d,"nanos":%d},"source":%q,"event":%q,"properties":null}`+"\n\n", secs, nanos, source, name)
	}
	booted, off := at(1, 0, "vm", "booted"), at(10, 999_000_000, "vm", "shutdown")
	gone := at(11, 2_000_000, "vm", "deleted") + at(11, 3_000_000, "vmm", "shutdown")
	goneLater := at(75, 0, "vm", "deleted") + at(75, 1, "vmm", "shutdown")
	for name, tt := range map[string]struct {
		looks []string // events written between two runs of Keep
		want  bool
	}{
		"it works":                               {[]string{booted}, false},
		"it turned itself off":                   {[]string{booted + off}, true},
		"its process was stopped":                {[]string{booted + off + gone}, false},
		"it turned itself off, then that":        {[]string{booted + off + goneLater}, true},
		"and it was looked at before":            {[]string{booted + off, goneLater}, true},
		"it was off, and started again":          {[]string{booted + off, at(20, 0, "vm", "booted"), at(30, 0, "vm", "shutdown") + at(30, 1, "vm", "deleted")}, false},
		"it was deleted without having been off": {[]string{booted + at(75, 0, "vm", "deleted")}, false},
		"it has impossible times":                {[]string{booted + off + at(-1, 0, "vm", "deleted")}, false},
	} {
		path := filepath.Join(t.TempDir(), "events")
		var h heard
		all := ""
		for _, said := range tt.looks {
			all += said
			if err := os.WriteFile(path, []byte(all), 0o600); err != nil {
				t.Fatal(err)
			}
			var err error
			if h, err = h.readEvents(path); err != nil {
				t.Fatal(err)
			}
		}
		if got := (&process{Stays: true}).guestIsOff(h); got != tt.want {
			t.Errorf("%s: guest is off = %v", name, got)
		}
	}
}

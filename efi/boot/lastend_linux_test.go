package boot

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"writ/efi/boot/panics"
)

// crashWith returns a crash whose kernel log has these lines.
func crashWith(t *testing.T, lines ...string) panics.Crash {
	t.Helper()
	all, _, err := panics.Read(fstest.MapFS{"dmesg-efi_pstore-1": {
		Data: []byte("Panic#1 Part1\n" + strings.Join(lines, "\n") + "\n"), ModTime: time.Unix(1e9, 0),
	}})
	if err != nil || len(all) != 1 {
		t.Fatalf("the log has %d crashes, %v", len(all), err)
	}
	return all[0]
}

// More people can read the console than the log.
func TestTheLastWordsOfAKernelAreShownWithoutTheToken(t *testing.T) {
	onScreen(t, func(p *paged) {
		m, told := heldMachine(p)
		m.Redact = func(text string) string { return strings.ReplaceAll(text, "canary", "(redacted)") }
		c := crashWith(t, "<5>[    0.000000] Command line: quiet writ.join=secret",
			"<5>[    0.100000] Unknown parameters \"x=canary\"", "<0>[   12.500000] Kernel panic - not syncing: first")
		m.lastEnd.Count = panics.Count{}.After([]panics.Crash{c})
		m.lastEnd.reportCrash(c)
		p.want(0, "  kernel: Command line: quiet writ.join=(hidden)\n", "  kernel: Unknown parameters \"x=(redacted)\"\n", "  kernel: Kernel panic - not syncing: first\n",
			"panic    error: the last start of this machine ended with: Kernel panic - not syncing: first\n", "panic    hint: ")
		if len(*told) != 1 || !(*told)[0].Failed || (*told)[0].Held || !strings.HasSuffix((*told)[0].Text, ": Kernel panic - not syncing: first") {
			t.Errorf("reports = %+v", *told)
		}
	})
}

func TestTheLastWordsOfAKernelAreInTheLogWithoutTheToken(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	l := newLogs(func(text string) string { return strings.ReplaceAll(text, "canary", "(redacted)") })
	l.crash(crashWith(t, "<5>[    0.000000] Command line: quiet writ.join=writ2.secret panic=60", "<4>[    0.100000] a warning",
		"<0>[   12.500000] Kernel panic - not syncing: canary \x1b[2J", "<4>[   12.500001] Call Trace:"))
	if err := l.begin(dir); err != nil {
		t.Fatal(err)
	}
	l.end()
	want := []string{
		"info before the restart, [0.000000] Command line: quiet writ.join=(hidden) panic=60", "warn before the restart, [0.100000] a warning",
		"error before the restart, [12.500000] Kernel panic - not syncing: (redacted)  [2J", "warn before the restart, [12.500001] Call Trace:",
	}
	if got := keptLines(t, dir, sourceKernel); !slices.Equal(got, want) {
		t.Errorf("the log has %q", got)
	}
}

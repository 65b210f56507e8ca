package boot

import (
	"strings"
	"testing"
	"testing/fstest"
)

// More people can read the console than the log.
func TestTheLastWordsOfAKernelAreShownWithoutTheToken(t *testing.T) {
	onScreen(t, func(p *paged) {
		m, told := heldMachine(p)
		m.Redact = func(text string) string { return strings.ReplaceAll(text, "canary", "(redacted)") }
		pstore := fstest.MapFS{}
		panicked(pstore, firstPanic, "first", "<5>[    0.000000] Command line: quiet writ.join=secret\n", "<5>[    0.100000] Unknown parameters \"x=canary\"\n")
		all := found(t, pstore)
		m.lastEnd.panics = panics{}.after(all)
		m.lastEnd.tell(all[0])
		p.want(0, "  kernel: Command line: quiet writ.join=(hidden)\n", "  kernel: Unknown parameters \"x=(redacted)\"\n", "  kernel: Kernel panic - not syncing: first\n",
			"panic    error: the last start of this machine ended with: Kernel panic - not syncing: first\n", "panic    hint: ")
		if len(*told) != 1 || !(*told)[0].Failed || (*told)[0].Held || !strings.HasSuffix((*told)[0].Text, ": Kernel panic - not syncing: first") {
			t.Errorf("the boot server is told %+v", *told)
		}
	})
}

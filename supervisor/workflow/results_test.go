package workflow

import (
	"strings"
	"testing"

	"writ"
	"writ/scripts"
	"writ/supervisor/journal"
)

// The errors of the calls of a long run fit into one frame for the evaluator.
func TestErrorsOfLaterCallsAreShort(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", 10<<10)
	for seq, most := range map[int]int{scripts.MaxOpenCalls: 8 << 10, scripts.MaxOpenCalls + 1: laterMessage + laterHint} {
		c := &journal.Call{Call: writ.Call{Seq: seq}}
		r := validateResult(new(journal.Run), c, writ.Result{Error: writ.Errorf(writ.CodeInternal, "%s", text).WithHint("%s", text)})
		if n := len(r.Error.Message) + len(r.Error.Hint); n > most+20 || n < most-20 {
			t.Errorf("the error of call %d has %d bytes, want %d", seq, n, most)
		}
	}
}

package why

import (
	"fmt"
	"slices"

	"writ"
	"writ/ledger"
)

// loopOf returns the position of a run's last call, and the number of the run's last calls with the same position,
// operation and name. Each of these calls was planned in a later pass (evaluation of the script) than the previous
// call. loopOf finds a run that polls: such a run has events all the time, so it is never silent.
func loopOf(calls []writ.Call) (position string, times int) {
	if len(calls) == 0 {
		return "", 0
	}
	last := calls[len(calls)-1]
	for i, c := range slices.Backward(calls) {
		if c.Position != last.Position || c.Operation != last.Operation || c.Name != last.Name {
			break
		}
		if i+1 < len(calls) && !c.Planned.Before(calls[i+1].Planned) { // both were planned in the same pass
			break
		}
		times++
	}
	return last.Position, times
}

// loopText returns the clause about a repeated call, or "".
func loopText(calls []writ.Call) string {
	position, times := loopOf(calls)
	if times < ledger.LoopCalls {
		return ""
	}
	last := calls[len(calls)-1]
	return fmt.Sprintf("; it repeats %s at %s: its last %d calls came from there, so look for a loop that does not end",
		titleOf(last), position, times)
}

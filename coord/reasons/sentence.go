package reasons

import (
	"strings"

	"writ"
)

// predicates maps how a reason without a subject begins to how its sentence begins. The subject is a run or call.
var predicates = [...]struct{ reason, sentence string }{
	{"is ", "it is "},
	{"waits ", "it waits "},
	{"takes over ", "it takes over "},
	{"resumed by ", "it was resumed by "},
}

// Sentence returns a reason of a supervisor as a sentence with a subject: "it is on hold" for "is on hold".
func Sentence(why string) string {
	for _, p := range predicates {
		if rest, ok := strings.CutPrefix(why, p.reason); ok {
			return p.sentence + rest
		}
	}
	return why
}

// State returns the state of a run or submission as the end of a sentence: "has failed", "is running".
func State(s writ.RunState) string {
	switch s {
	case writ.RunSucceeded, writ.RunFailed, writ.RunExpired:
		return "has " + string(s)
	case writ.RunCancelled, writ.RunState(writ.SubmissionRefused):
		return "was " + string(s)
	}
	return "is " + string(s)
}

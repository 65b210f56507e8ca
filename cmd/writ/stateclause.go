package main

import "writ"

// stateClause formats the state of a run or submission as the end of a sentence: "has failed", "is running".
func stateClause(s writ.RunState) string {
	switch s {
	case writ.RunSucceeded, writ.RunFailed, writ.RunExpired:
		return "has " + string(s)
	case writ.RunCancelled, writ.RunState(writ.SubmissionRefused):
		return "was " + string(s)
	}
	return "is " + string(s)
}

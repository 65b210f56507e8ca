package remedy

import (
	"time"

	"writ"
)

// ResumeHelps reports whether a resumed run can have another outcome than before. f is the failure of the run, or nil
// if it is unknown.
func ResumeHelps(f *writ.Failure, deadline, now time.Time) bool {
	switch {
	case !deadline.IsZero() && !now.Before(deadline): // a resume does not extend the deadline
		return false
	case f == nil:
		return true
	case f.Seq > 0:
		return !f.Handled && !EndsTheSameWay(f.Code)
	}
	return resumeHelps(f.Code)
}

// EndsTheSameWay reports whether a run or call with this error fails again in every resume. The script, its signed
// header or an existing resource must change first.
func EndsTheSameWay(code writ.Code) bool {
	switch code {
	case writ.CodeOperationNotAllowed, writ.CodeDestructiveDenied, writ.CodeArgumentsInvalid, writ.CodeTooLarge, writ.CodeScriptInvalid,
		writ.CodeScriptLimit, writ.CodeImmutableField, writ.CodeNotOwner, writ.CodeResourceConflict:
		return true
	}
	return false
}

// resumeHelps reports whether a resume can help a run that failed with this code in its script, and not in a call. The
// script is evaluated again with the same results of calls, so it fails at the same place.
func resumeHelps(code writ.Code) bool {
	switch code {
	case writ.CodeScriptFailed, writ.CodeNonDeterminism, writ.CodePlanDeviated, writ.CodePlanMismatch, writ.CodeEngineUnsupported,
		writ.CodeRunExpired, writ.CodeDeadlineExceeded:
		return false
	}
	return !EndsTheSameWay(code)
}

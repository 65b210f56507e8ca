package runs

import (
	"fmt"
	"time"

	"writ"
	"writ/coord/api"
	"writ/coord/remedy"
)

// causesThatPass maps codes of failures outside of the script to the beginning of a sentence: when a resume succeeds.
var causesThatPass = map[writ.Code]string{
	writ.CodeUnreachable:  "once the server answers again, ",
	writ.CodeRegistryBusy: "once the registry answers again, ",
	writ.CodeNoCapacity:   "then ",
}

// withResume returns the failure of a run. If a resume can help once the cause has passed, its command ends the hint.
func withResume(run api.Run, f *writ.Failure, now time.Time) *writ.Failure {
	if f == nil || run.State != api.RunStateFailed || causesThatPass[f.Code] == "" ||
		!remedy.ResumeHelps(f, run.Deadline, now) {
		return f
	}
	told := *f
	if told.Hint != "" {
		told.Hint += "; "
	}
	told.Hint += fmt.Sprintf("%s`writ run resume %s` continues the run", causesThatPass[f.Code], run.ID)
	return &told
}

package runs

import (
	"testing"
	"time"

	"writ"
	"writ/coord/api"
)

func TestHintHasResumeIfTheCausePasses(t *testing.T) {
	t.Parallel()
	now := time.Now()
	failed := api.Run{ID: "r", State: api.RunStateFailed, Deadline: now.Add(time.Hour)}
	late := failed
	late.Deadline = now
	cancelled := failed
	cancelled.State = api.RunStateCancelled
	for name, tt := range map[string]struct {
		run     api.Run
		code    writ.Code
		hint    string
		handled bool
		want    string
	}{
		"pull":         {failed, writ.CodeUnreachable, "the log has the cause", false, "the log has the cause; once the server answers again, `writ run resume r` continues the run"},
		"busy":         {failed, writ.CodeRegistryBusy, "", false, "once the registry answers again, `writ run resume r` continues the run"},
		"no capacity":  {failed, writ.CodeNoCapacity, "add a node", false, "add a node; then `writ run resume r` continues the run"},
		"late":         {late, writ.CodeUnreachable, "", false, ""},
		"cancelled":    {cancelled, writ.CodeUnreachable, "", false, ""},
		"handled":      {failed, writ.CodeUnreachable, "", true, ""},
		"other reason": {failed, writ.CodeImageUnknown, "push it", false, "push it"},
	} {
		f := &writ.Failure{Error: writ.Error{Code: tt.code, Hint: tt.hint}, Seq: 1, Handled: tt.handled}
		if got := withResume(tt.run, f, now).Hint; got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
		if f.Hint != tt.hint {
			t.Errorf("%s: the failure itself has changed", name)
		}
	}
	if withResume(failed, nil, now) != nil {
		t.Error("a failure was made up")
	}
}

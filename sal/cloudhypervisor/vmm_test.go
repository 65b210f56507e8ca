package cloudhypervisor

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"writ"
	"writ/sal/cloudhypervisor/api"
)

// An invalid request is not retried; a temporary failure is.
func TestInvalidRequestIsNotRetried(t *testing.T) {
	for status, again := range map[int]bool{400: false, 409: false, 404: true, 429: true, 500: true, 503: true} {
		code := codeOf(fmt.Errorf("describe: %w", &api.Refusal{Operation: "vm.create", Status: status}))
		if got := writ.Errorf(code, "refused").Retryable(); got != again {
			t.Errorf("%d is %s, tried again: %v", status, code, got)
		}
	}
	nested := &api.Refusal{Operation: "vm.snapshot", Status: 500, Causes: []string{"Cannot snapshot VM", "Could not get vCPU state GetNestedState(Invalid argument (os error 22))"}}
	if code := codeOf(fmt.Errorf("snapshot: %w", nested)); code != writ.CodeDriverRefused {
		t.Errorf("a kernel without nested state is %s", code)
	}
	for code, wanted := range map[writ.Code]bool{writ.CodeDriverRefused: true, writ.CodeDriverFailed: false} {
		hint := writ.AsError(withStopHint(writ.Errorf(code, "no").WithHint("see the log"))).Hint
		if strings.Contains(hint, "machine.stop") != wanted || !strings.HasSuffix(hint, "see the log") {
			t.Errorf("the hint of %s is %q", code, hint)
		}
	}
	if code := codeOf(errors.New("the connection broke")); code != writ.CodeDriverFailed {
		t.Errorf("no answer is %s", code)
	}
}

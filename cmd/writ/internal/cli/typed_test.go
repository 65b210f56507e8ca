package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/terminal"
)

func TestTypedHintKeepsTheOuterError(t *testing.T) {
	t.Parallel()
	inner := writ.Errorf(writ.CodeNotFound, "run abcd is unknown").WithHint("list them")
	outer := fmt.Errorf("watch the run: %w", &terminal.ExitError{Err: inner, Exit: writ.ExitFailed})
	err := WithTypedHint(&cobra.Command{}, []string{"run", "show", "abcd "}, outer)
	if got := err.Error(); got != outer.Error() {
		t.Errorf("text %q, want %q", got, outer)
	}
	if got := terminal.ExitCode(err); got != writ.ExitFailed {
		t.Errorf("exit code %d, want %d", got, writ.ExitFailed)
	}
	if got := terminal.ErrorText(err); !strings.Contains(got, "argument 3 begins or ends with a space") {
		t.Errorf("shown as %q, without the hint", got)
	}
	if inner.Hint != "list them" {
		t.Errorf("the original error has the hint %q now", inner.Hint)
	}
}

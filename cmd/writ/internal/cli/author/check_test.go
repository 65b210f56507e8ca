package author

import (
	"strings"
	"testing"

	"writ/scripts/check"
	"writ/scripts/diagnostic"
)

func TestParameterIsShownUnchanged(t *testing.T) {
	for want, value := range map[string]any{"n1,n2": []any{"n1", "n2"}, "": []any{}, "80": int64(80), "true": true} {
		if got := asGiven(value); got != want {
			t.Errorf("%v is shown as %q", value, got)
		}
	}
}

// TestHintIsAboutAnError checks a good file with a warning before a bad file. Both name an operation.
func TestHintIsAboutAnError(t *testing.T) {
	of := func(severity diagnostic.Severity, operation string) checked {
		return checked{OK: severity == diagnostic.SeverityWarning, Report: check.Report{
			Diagnostics: []diagnostic.Diagnostic{{Severity: severity, Operation: operation}},
		}}
	}
	files := []checked{of(diagnostic.SeverityWarning, "volume.get"), of(diagnostic.SeverityError, "machine.create")}
	for strict, want := range map[bool]string{false: "machine.create", true: "volume.get"} {
		if got := explainHint(files, strict); !strings.Contains(got, "`writ explain "+want+"`") {
			t.Errorf("with strict=%t the hint is %q, want one about %s", strict, got, want)
		}
	}
}

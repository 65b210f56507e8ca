package sqldb

import (
	"strings"
	"testing"

	"writ"
)

// A daemon ends if it cannot open its store, so the hint must not promise that it continues.
func TestUnopenedStoreNeedsAnotherStart(t *testing.T) {
	t.Parallel()
	_, err := Open(t.Context(), "postgres://writ@127.0.0.1:1/writ?sslmode=disable", schema) // no server listens there
	wantHint(t, err, writ.CodeStoreUnavailable, "check that it runs and has free space; then start writ again")
}

func wantHint(t *testing.T, err error, code writ.Code, end string) {
	t.Helper()
	if e := writ.AsError(err); e == nil || e.Code != code || !strings.HasSuffix(e.Hint, end) {
		t.Errorf("%+v, want %s with a hint that ends with %q", e, code, end)
	}
}

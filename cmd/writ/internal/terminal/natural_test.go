package terminal

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"writ/internal/test/testenv"
)

func TestNumbersInNamesAreSortedByValue(t *testing.T) {
	t.Parallel()
	got := SortedNames([]string{"volume/ci-10", "volume/ci-2", "volume/ci-1", "volume/ci-02", "volume/ci", "machine/web", "volume/ci-1-b", "volume/ci-99999999999999999999"})
	want := []string{"machine/web", "volume/ci", "volume/ci-1", "volume/ci-1-b", "volume/ci-02", "volume/ci-2", "volume/ci-10", "volume/ci-99999999999999999999"}
	if !slices.Equal(got, want) {
		t.Errorf("sorted: %q", got)
	}
	name := rapid.StringMatching(`[a0-2-]{0,6}`)
	testenv.CheckProperty(t, func(r *rapid.T) {
		a, b, c := name.Draw(r, "a"), name.Draw(r, "b"), name.Draw(r, "c")
		if CompareNames(a, b) != -CompareNames(b, a) || (CompareNames(a, b) == 0) != (a == b) {
			r.Errorf("%q and %q", a, b)
		}
		if CompareNames(a, b) < 0 && CompareNames(b, c) < 0 && CompareNames(a, c) >= 0 {
			r.Errorf("%q, %q, %q have no order", a, b, c)
		}
	})
}

package widget

import (
	"testing"

	"writ"
)

func TestShortIDsOfOneMinuteDiffer(t *testing.T) {
	a, b := writ.ProjectID(writ.NewUUID()), writ.ProjectID(writ.NewUUID())
	if Short(a) == Short(b) {
		t.Errorf("%s and %s are both %s", a, b, Short(a))
	}
	for id, want := range map[string]string{
		"5f0c1c8e-23a4-8b5d-9c7e-0123456789ab": "5f0c1c8e", // of a node: derived from its key
		"0192f6c2-0000-7000-8000-0123456789ab": "…456789ab",
		"short":                                "short", "": "",
	} {
		if got := Short(id); got != want {
			t.Errorf("%q is %q, want %q", id, got, want)
		}
	}
}

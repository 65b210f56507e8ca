package main

import (
	"strings"
	"testing"
	"time"

	"writ"
)

func TestAResourceSaysWhatItsNodeMended(t *testing.T) {
	r := writ.Resource{
		ResourceID: writ.ResourceID{Kind: writ.KindMachine, Name: "web-0"}, Drift: []string{"its volume data is not as it was"},
		Mended: []writ.Mending{
			{Number: 4, Time: time.Now().Add(-5 * time.Hour), What: "the host was started anew"},
			{Number: 9, Time: time.Now().Add(-3*time.Minute - time.Second), What: "its process had died,\x1b[2J killed by the kernel"},
		},
	}
	text := resourceText(r, nil, nil)
	for _, want := range []string{
		"  drift: its volume data is not as it was\n  mended 3m ago: its process had died,", "killed by the kernel\n  mended 5h ago: the host was started anew\n  and mended 7 times besides\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not say %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "\x1b") {
		t.Errorf("what a driver says reaches the terminal: %q", text)
	}
	if r.Mended = nil; strings.Contains(resourceText(r, nil, nil), "mended") {
		t.Error("what was never mended says that it was")
	}
}

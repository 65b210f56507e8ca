package coord

import (
	"slices"
	"testing"

	"writ/ledger"
)

// The waiting submissions of one project, however many, delay another project by one round only.
//
// Promise: Load and attackers: A flood of submissions of one project delays another project by one round of 64 only.
// How: The delivery loop serves projects in turn; a refused project pauses alone.
// Also: TestRateLimitPausesOneProject.
func TestProjectsAreDeliveredRoundRobin(t *testing.T) {
	p := start(t, nil)
	const many = 300
	for range many {
		if _, err := p.delivery.Submit(t.Context(), signedScript(t, payload()), "test"); err != nil {
			t.Fatal(err)
		}
	}
	late := payload()
	late.Project, late.ProjectName = blog, "web-blog"
	s, err := p.delivery.Submit(t.Context(), signedScript(t, late), "test")
	if err != nil {
		t.Fatal(err)
	}
	dc := connect(p, vienna, nil)
	p.await("all delivered", func() bool {
		counts, err := p.Ledger.CountRuns(t.Context(), ledger.RunFilter{})
		return err == nil && counts.Total()["accepted"] == many+1
	})
	if before := slices.Index(dc.took(), s.Run); before < 0 || before > 100 {
		t.Errorf("%d submissions of another project were first", before)
	}
}

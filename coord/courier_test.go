package coord

import (
	"slices"
	"testing"
	"time"

	"writ"
	"writ/ledger"
)

func TestFailedDeliveryIsRetriedAfterAnotherSucceeds(t *testing.T) {
	k := &courier{c: &Coordinator{}, projects: map[writ.ProjectID]*rest{}, delayed: map[writ.Digest]time.Time{}, finished: map[writ.Digest]bool{}}
	k.later(writ.Submission{Payload: writ.Digest{1}}, writ.Errorf(writ.CodeStoreUnavailable, "no space left"))
	k.done(writ.Submission{Payload: writ.Digest{2}})
	if !k.owes() {
		t.Error("nobody tries it again")
	}
	k.done(writ.Submission{Payload: writ.Digest{1}})
	if k.owes() {
		t.Error("it is still owed")
	}
}

func TestRateLimitedProjectPausesAlone(t *testing.T) {
	k := &courier{c: &Coordinator{}, projects: map[writ.ProjectID]*rest{}, delayed: map[writ.Digest]time.Time{}, finished: map[writ.Digest]bool{}}
	k.later(writ.Submission{Payload: writ.Digest{1}, Project: shop}, writ.Errorf(writ.CodeRateLimited, "200000 open runs"))
	if k.rests() || k.projectRests(blog) || !k.projectRests(shop) || !k.owes() {
		t.Errorf("everything rests: %v, another project: %v, this one: %v, it is owed: %v", k.rests(), k.projectRests(blog), k.projectRests(shop), k.owes())
	}
	k.later(writ.Submission{Payload: writ.Digest{2}, Project: blog}, writ.Errorf(writ.CodeStoreUnavailable, "no space left"))
	if !k.rests() {
		t.Error("a datacenter that can take nothing is asked on")
	}
}

// The waiting submissions of one project, however many, delay another project by one round only.
func TestProjectsAreDeliveredRoundRobin(t *testing.T) {
	p := start(t, nil)
	const many = 300
	for range many {
		if _, err := p.Submit(t.Context(), signedScript(t, payload()), "test"); err != nil {
			t.Fatal(err)
		}
	}
	late := payload()
	late.Project, late.ProjectName = blog, "web-blog"
	s, err := p.Submit(t.Context(), signedScript(t, late), "test")
	if err != nil {
		t.Fatal(err)
	}
	dc := connect(p, vienna, nil)
	p.await("all delivered", func() bool {
		counts, err := p.Ledger.CountRuns(t.Context(), ledger.RunFilter{})
		return err == nil && counts.Total()["accepted"] == many+1
	})
	if before := slices.Index(dc.took(), s.Run); before < 0 || before > 100 {
		t.Errorf("%d submissions of another project came first", before)
	}
}

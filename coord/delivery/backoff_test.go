package delivery

import (
	"testing"

	"writ"
)

const shop, blog = writ.ProjectID("shop"), writ.ProjectID("blog")

func TestFailedDeliveryIsRetriedAfterAnotherSucceeds(t *testing.T) {
	b := newBackoff()
	b.failed(writ.Submission{Payload: writ.Digest{1}}, writ.CodeStoreUnavailable)
	b.done(writ.Submission{Payload: writ.Digest{2}})
	if !b.pending() {
		t.Error("the failed delivery is not pending")
	}
	b.done(writ.Submission{Payload: writ.Digest{1}})
	if b.pending() {
		t.Error("the delivery is pending after its success")
	}
}

func TestRateLimitPausesOneProject(t *testing.T) {
	b := newBackoff()
	b.failed(writ.Submission{Payload: writ.Digest{1}, Project: shop}, writ.CodeRateLimited)
	if b.paused() || b.projectPaused(blog) || !b.projectPaused(shop) || !b.pending() {
		t.Errorf("paused: all %v, another project %v, this one %v; pending %v", b.paused(), b.projectPaused(blog), b.projectPaused(shop), b.pending())
	}
	b.failed(writ.Submission{Payload: writ.Digest{2}, Project: blog}, writ.CodeStoreUnavailable)
	if !b.paused() {
		t.Error("a full datacenter gets further requests")
	}
}

// The ledger lacks the text of a submission, or names another run for it.
func TestWrongRowPausesOneSubmission(t *testing.T) {
	for _, code := range []writ.Code{writ.CodeNotFound, writ.CodeExecError} {
		b := newBackoff()
		b.failed(writ.Submission{Payload: writ.Digest{1}, Project: shop}, code)
		if b.paused() || b.projectPaused(shop) || b.due(writ.Digest{1}) {
			t.Errorf("%s: paused: all %v, the project %v, the submission %v", code, b.paused(), b.projectPaused(shop),
				!b.due(writ.Digest{1}))
		}
	}
}

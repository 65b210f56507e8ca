package coord

import (
	"slices"
	"testing"
	"time"

	"writ/identity/expiring"
)

// Promise: Operation: Expiring boot server tokens, incomplete batches and unrenewed certificates are reported before
// they expire.
// How: The coordinator asks datacenters every five minutes.
// Also: TestExpiringThingsAreNamed, TestDoctorNamesThingsThatExpire, TestOnlyBootTokensNeedRenewal,
// TestBatchWithMissingNodesIsNamed, TestUnrenewedCertificateIsNamed.
func TestCertificateOfDatacenterIsAmongEnds(t *testing.T) {
	p := start(t, nil)
	s := connect(p, vienna, nil)
	look := func(left time.Duration) bool {
		until := p.Now().Add(left)
		s.mu.Lock()
		s.certificate = [2]time.Time{until.Add(-90 * 24 * time.Hour), until}
		s.mu.Unlock()
		p.expiring.Ask(t.Context())
		return slices.ContainsFunc(p.expiries.All(), func(e expiring.Item) bool {
			return e.What == "the certificate of the supervisor of vienna" && e.Stage(p.Now()) > 0
		})
	}
	if look(31 * 24 * time.Hour) {
		t.Error("a certificate with a third of its time left needs attention")
	}
	if !look(6 * 24 * time.Hour) {
		t.Error("a certificate that was not renewed needs no attention")
	}
	s.leave()
	if !look(40 * 24 * time.Hour) {
		t.Error("the certificate of a datacenter that went away is forgotten")
	}
}

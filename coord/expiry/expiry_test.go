package expiry

import (
	"strings"
	"testing"
	"time"

	"writ"
	"writ/coord/api"
	"writ/identity/expiring"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

// due returns the items that need a person now, one per line.
func due(all []expiring.Item) string {
	var lines []string
	for _, e := range all {
		if e.Stage(now) > 0 {
			lines = append(lines, e.String()+": "+e.Renew)
		}
	}
	return strings.Join(lines, "\n")
}

func TestOnlyBootTokensNeedRenewal(t *testing.T) {
	t.Parallel()
	got := due(Tokens("dc1", []writ.JoinToken{
		{ID: "node", Uses: 1, Expires: now.Add(time.Hour)},
		{ID: "later", Expires: now.Add(31 * day)},
		{ID: "soon", Expires: now.Add(29 * day)},
		{ID: "revoked", Expires: now.Add(-time.Hour)},
	}, now))
	want := "the token soon of a boot server of dc1 expires on 2026-03-30: writ token create --role boot-server --dc dc1, and start the boot server with the new token"
	if got != want {
		t.Errorf("due are\n%s\nwant\n%s", got, want)
	}
}

func TestBatchWithMissingNodesIsNamed(t *testing.T) {
	t.Parallel()
	got := due(Batches("dc1", []api.Batch{
		{ID: "later", Max: 2, Until: now.Add(61 * time.Minute)},
		{ID: "soon", Max: 2, Until: now.Add(time.Hour), Admitted: make([]api.BatchNode, 1)},
		{ID: "complete", Max: 1, Until: now.Add(time.Minute), Admitted: make([]api.BatchNode, 1)},
		{ID: "revoked", Max: 1, Until: now.Add(time.Minute), Revoked: now},
		{ID: "void", Max: 1, Until: now.Add(time.Minute), Void: "its signer has no right to it"},
		{ID: "over", Max: 1, Until: now},
	}, now))
	want := "the batch soon of dc1, which has admitted 1 of 2 nodes, expires on 2026-03-01: writ batch create --dc dc1, with the serial numbers of the machines that are missing"
	if got != want {
		t.Errorf("due are\n%s\nwant\n%s", got, want)
	}
}

func TestUnrenewedCertificateIsNamed(t *testing.T) {
	t.Parallel()
	cert := func(of string, life, left time.Duration) writ.Certificate {
		return writ.Certificate{Of: of, From: now.Add(left - life), Until: now.Add(left)}
	}
	got := due(Certificates("dc1", []writ.Certificate{
		cert("supervisor", 90*day, 29*day), // its renewal may have just started
		cert("redis", 90*day, 6*day),
		cert("coordinator", 90*day, -day),
		cert("public", 365*day, 29*day),
	}))
	want := "the certificate of the redis of dc1 expires on 2026-03-07: read the log of the supervisor of dc1, which renews it by itself\n" +
		"the certificate of the coordinator of dc1 expires on 2026-02-28: read the log of the coordinator dc1, which renews it by itself\n" +
		"the certificate for browsers expires on 2026-03-30: replace the files of --tls-cert and --tls-key, which the coordinator reads again by itself"
	if got != want {
		t.Errorf("due are\n%s\nwant\n%s", got, want)
	}
}

package client

import (
	"crypto/ed25519"
	"slices"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/coord/api"
	"writ/identity"
	"writ/identity/envelope"
	"writ/identity/sshsig"
)

// signedBy signs records as a supervisor does.
func signedBy(t *testing.T, key ed25519.PrivateKey, kind envelope.Kind, records ...any) []byte {
	t.Helper()
	b, err := envelope.Sign(kind, key, records...)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestOnlyAnAnswerToThisTextIsBelieved(t *testing.T) {
	w := newFixture(t)
	roster := w.alice.Roster
	graz, linz := roster.Datacenters.Named("graz"), roster.Datacenters.Named("linz")
	statement := identity.Statement{
		Datacenter: graz.ID, Subject: "run/" + string(writ.RunIDOf(writ.Digest{})), Decision: "cancel",
		Seen: identity.SeenRun("a.tengo", roster.Projects[0].ID, roster.Projects[0].Name, time.Time{}),
	}
	signed, err := w.alice.SignStatement(statement)
	if err != nil {
		t.Fatal(err)
	}
	to, err := newAnswerTo(roster, sshsig.StatementNamespace, signed)
	if err != nil {
		t.Fatal(err)
	}
	done := writ.Answer{Cluster: roster.Cluster, Datacenter: graz.ID, Text: to.text, Subject: statement.Subject, Done: "it is cancelled", Roster: roster.Version}
	refused := done
	refused.Done, refused.Refused = "", writ.Errorf(writ.CodeConflict, "it has ended").WithHint("look again")
	change := func(a writ.Answer, do func(*writ.Answer)) writ.Answer {
		do(&a)
		return a
	}
	key := w.datacenters["graz"]
	flipped := signedBy(t, key, envelope.Answer, done)
	flipped = slices.Clone(flipped)
	flipped[len(flipped)/2] ^= 1
	for what, tt := range map[string]struct {
		proof []byte
		want  writ.Code // if the coordinator reports success
		other writ.Code // if the coordinator reports a refusal
	}{
		"that it is done":      {signedBy(t, key, envelope.Answer, done), "", writ.CodeUnverified},
		"that it is refused":   {signedBy(t, key, envelope.Answer, refused), writ.CodeUnverified, writ.CodeConflict},
		"none":                 {nil, writ.CodeUnverified, writ.CodeUnverified},
		"a changed byte":       {flipped, writ.CodeUnverified, writ.CodeUnverified},
		"another kind":         {signedBy(t, key, envelope.Summary, done), writ.CodeUnverified, writ.CodeUnverified},
		"two":                  {signedBy(t, key, envelope.Answer, done, done), writ.CodeUnverified, writ.CodeUnverified},
		"another datacenter's": {signedBy(t, w.datacenters["linz"], envelope.Answer, done), writ.CodeUnverified, writ.CodeUnverified},
		"about another one": {
			signedBy(t, key, envelope.Answer, change(done, func(a *writ.Answer) { a.Datacenter = linz.ID })), writ.CodeUnverified, writ.CodeUnverified,
		},
		"of another cluster": {signedBy(t, key, envelope.Answer, change(done, func(a *writ.Answer) { a.Cluster = "x" })), writ.CodeUnverified, writ.CodeUnverified},
		"about another text": {
			signedBy(t, key, envelope.Answer, change(refused, func(a *writ.Answer) { a.Text = writ.DigestOf([]byte("x")) })), writ.CodeUnverified, writ.CodeUnverified,
		},
		"both": {signedBy(t, key, envelope.Answer, change(refused, func(a *writ.Answer) { a.Done = "it is cancelled" })), writ.CodeUnverified, writ.CodeUnverified},
	} {
		answer, _, err := to.done(api.StatementAnswer{Subject: "x", Done: "a lie", Proof: tt.proof})
		if writ.CodeOf(err) != tt.want || err == nil && answer.Done != done.Done {
			t.Errorf("done, proved by %s: %+v, %v", what, answer, err)
		}
		said := writ.Errorf(writ.CodeRoleMissing, "a lie")
		said.Proof = tt.proof
		if err := to.refused(said); writ.CodeOf(err) != tt.other || tt.other == writ.CodeConflict && err.Error() != "it has ended" {
			t.Errorf("refused, proved by %s: %v", what, err)
		}
	}
	away := writ.Errorf(writ.CodeDatacenterAway, "it is away")
	if err := to.refused(away); err != error(away) { //nolint:errorlint // it must be this error, not a wrapper
		t.Errorf("error without a decision: %v", err)
	}

	// Errors that the client can find itself need no proof.
	cut := slices.Clone(signed)
	cut[len(cut)/4] ^= 1
	if to, err := newAnswerTo(roster, sshsig.StatementNamespace, signed); err != nil {
		t.Fatal(err)
	} else if to.signed = cut; writ.CodeOf(to.refused(writ.Errorf(writ.CodeSignatureInvalid, "x"))) != writ.CodeSignatureInvalid {
		t.Error("a broken signature is not found")
	}
}

func TestOnlyAnAdoptionWithThisNonceIsBelieved(t *testing.T) {
	w := newFixture(t)
	roster := w.alice.Roster
	graz := roster.Datacenters.Named("graz")
	digest, err := roster.Digest()
	if err != nil {
		t.Fatal(err)
	}
	nonce := make([]byte, writ.ClientNonce)
	good := writ.Adoption{Cluster: roster.Cluster, Datacenter: graz.ID, Roster: roster.Version, Digest: digest, Nonce: nonce}
	for what, tt := range map[string]struct {
		key    string
		change func(a *writ.Adoption)
		want   writ.Code
	}{
		"this one":                 {"graz", func(*writ.Adoption) {}, ""},
		"with another nonce":       {"graz", func(a *writ.Adoption) { a.Nonce = []byte("x") }, writ.CodeUnverified},
		"of another datacenter":    {"linz", func(*writ.Adoption) {}, writ.CodeUnverified},
		"about another datacenter": {"graz", func(a *writ.Adoption) { a.Datacenter = roster.Datacenters.Named("linz").ID }, writ.CodeUnverified},
		"of another cluster":       {"graz", func(a *writ.Adoption) { a.Cluster = "x" }, writ.CodeUnverified},
		"of another roster":        {"graz", func(a *writ.Adoption) { a.Digest = writ.DigestOf(nil) }, writ.CodeRosterFork},
	} {
		a := good
		tt.change(&a)
		list := api.AdoptionList{Items: []api.DatacenterAdoption{{Datacenter: graz.ID, Name: "graz", Proof: signedBy(t, w.datacenters[tt.key], envelope.Adoption, a)}}}
		version, err := adoptedBy(roster, graz, nonce, list)
		if writ.CodeOf(err) != tt.want || err == nil && version != roster.Version {
			t.Errorf("%s: version %d, %v", what, version, err)
		}
	}
	old := api.AdoptionList{Items: []api.DatacenterAdoption{{Datacenter: graz.ID, Error: writ.Errorf(writ.CodeVerbUnsupported, "x")}}}
	if _, err := adoptedBy(roster, graz, nonce, old); err == nil || !strings.Contains(err.Error(), "upgrade it") {
		t.Errorf("an older supervisor: %v", err)
	}
}

package supervisor_test

import (
	"crypto/rand"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"writ"
	"writ/identity"
	"writ/identity/sshsig"
)

// certified returns a signer for the machine deploy, with a certificate of authority.
func certified(t *testing.T, authority sshsig.Signer, by ssh.Signer) sshsig.Signer {
	t.Helper()
	key := newKey(t)
	cert := &ssh.Certificate{
		Key: sshsig.NewSigner(key).PublicKey(), CertType: ssh.UserCert, KeyId: "ci-1", ValidPrincipals: []string{"deploy"},
		ValidAfter: uint64(time.Now().Unix()), ValidBefore: uint64(time.Now().Add(10 * time.Minute).Unix()), SignatureKey: authority.PublicKey(),
	}
	if err := cert.SignCert(rand.Reader, by); err != nil {
		t.Fatal(err)
	}
	signer, err := sshsig.NewCertifiedSigner(key, cert)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

// submitBy signs and submits a script as the machine deploy.
func (s *sim) submitBy(signer sshsig.Signer) (writ.Run, error) {
	s.t.Helper()
	p := s.payload(webScript)
	p.Signer, p.Certificate = "deploy", identity.CertificateDigest(signer.PublicKey())
	p.Format = identity.FormatFor(p.Certificate)
	person := s.person
	s.person = signer
	signed := s.signPayload(p)
	s.person = person
	return s.Submit(s.t.Context(), signed)
}

// amendRoster changes the roster with how and makes the datacenter adopt it.
func (s *sim) amendRoster(how func(r *identity.Roster)) {
	s.t.Helper()
	next, err := s.roster.Successor(time.Now())
	if err != nil {
		s.t.Fatal(err)
	}
	how(next)
	s.adopt(next)
	if _, err := s.AdoptRosters(s.t.Context(), s.rosters); err != nil {
		s.t.Fatal(err)
	}
}

// Promise: CI certificates and batches: Runs of a removed authority continue, runs of a revoked authority are
// cancelled, and neither can start new runs.
// How: The rules for people apply.
// Also: TestRunsOutliveTheirCertificate.
func TestAuthorityRunsContinueWithTheirRight(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(a *identity.Authority)
		refused writ.Code // for a new run
		want    writ.RunState
	}{
		"removed":             {func(a *identity.Authority) { a.State = identity.Removed }, writ.CodeSignerUnknown, writ.RunSucceeded},
		"shorter life":        {func(a *identity.Authority) { a.Life = time.Minute }, writ.CodeSignerUnknown, writ.RunSucceeded},
		"soon over":           {func(a *identity.Authority) { a.Expires = time.Now().Add(time.Second).UTC().Truncate(time.Second) }, writ.CodeExpired, writ.RunSucceeded},
		"revoked":             {func(a *identity.Authority) { a.State = identity.Revoked }, writ.CodeSignerRevoked, writ.RunCancelled},
		"without this key id": {func(a *identity.Authority) { a.KeyIDs = map[string][]string{"deploy": {"ci-2"}} }, writ.CodeSignerUnknown, writ.RunCancelled},
	} {
		t.Run(name, func(t *testing.T) {
			inSim(t, func(t *testing.T, s *sim) {
				s.join("n1", slowly(2*time.Minute))
				key := newKey(t)
				authority := sshsig.NewSigner(key)
				by, err := ssh.NewSignerFromSigner(key)
				if err != nil {
					t.Fatal(err)
				}
				s.amendRoster(func(r *identity.Roster) {
					r.Principals = append(r.Principals, identity.Principal{Name: "deploy", Kind: identity.CI, State: identity.Active})
					r.Bindings = append(r.Bindings, identity.Binding{Principal: "deploy", Role: identity.Deployer, Project: theProject})
					r.Authorities = []identity.Authority{{
						Name: "forge", State: identity.Active, Key: authority.PublicKey(), Principals: []string{"deploy"}, Life: time.Hour,
					}}
				})
				run, err := s.submitBy(certified(t, authority, by))
				if err != nil {
					t.Fatal(err)
				}
				s.awaitCall(run.ID, 1, writ.CallRunning)
				s.amendRoster(func(r *identity.Roster) { c.change(&r.Authorities[0]) })
				time.Sleep(2 * time.Second)
				if _, err := s.submitBy(certified(t, authority, by)); writ.CodeOf(err) != c.refused {
					t.Errorf("new run: %v, want %s", err, c.refused)
				}
				s.wantState(run.ID, c.want)
			})
		})
	}
}

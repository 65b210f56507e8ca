package runner_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"writ"
	"writ/identity"
	"writ/identity/sshsig"
	"writ/runner"
)

// certificate creates a certificate of a key for the machine deploy. It is valid for ten minutes.
func (s *fixture) certificate(authority, key ed25519.PrivateKey, keyID string) *ssh.Certificate {
	s.Helper()
	cert := &ssh.Certificate{
		Key: sshsig.SSHKey(publicOf(key)), CertType: ssh.UserCert, KeyId: keyID, ValidPrincipals: []string{"deploy"},
		ValidAfter: uint64(time.Now().Unix()), ValidBefore: uint64(time.Now().Add(10 * time.Minute).Unix()),
	}
	by, err := ssh.NewSignerFromSigner(authority)
	must(s.TB, err)
	must(s.TB, cert.SignCert(rand.Reader, by))
	return cert
}

// byCertificate returns a submission of the machine deploy. A test can modify a fixture's payload by its digest.
func (s *fixture) byCertificate(key ed25519.PrivateKey, cert *ssh.Certificate) writ.Digest {
	s.Helper()
	signer, err := sshsig.NewCertifiedSigner(key, cert)
	must(s.TB, err)
	return s.submission(signer, func(p *identity.Payload) {
		p.Signer, p.Certificate = "deploy", identity.CertificateDigest(cert)
		p.Format = identity.FormatFor(p.Certificate)
	})
}

// A node verifies certificates even if coordinator and supervisor have accepted them.
func TestANodeVerifiesCertificatesByItself(t *testing.T) {
	authority, key := newKey(), newKey()
	for name, tt := range map[string]struct {
		submit func(s *fixture) writ.Digest
		since  func(r *identity.Roster) // a change of the roster after the submission
		wait   time.Duration            // between acceptance and the job
		want   writ.Code
	}{
		"an authority of the roster":                               {},
		"long ended by the clock of the node, and accepted before": {wait: 30 * time.Minute},
		"a removed authority":                                      {since: func(r *identity.Roster) { r.Authorities[0].State = identity.Removed }},
		"a revoked authority":                                      {since: func(r *identity.Roster) { r.Authorities[0].State = identity.Revoked }, want: writ.CodeSignerRevoked},
		"a stranger's authority": {
			submit: func(s *fixture) writ.Digest { return s.byCertificate(key, s.certificate(newKey(), key, "ci-1")) }, want: writ.CodeSignerUnknown,
		},
		"another key id": {
			submit: func(s *fixture) writ.Digest { return s.byCertificate(key, s.certificate(authority, key, "pr-1")) }, want: writ.CodeSignerUnknown,
		},
		"another certificate of the same key": {
			submit: func(s *fixture) writ.Digest {
				digest := s.byCertificate(key, s.certificate(authority, key, "ci-1"))
				text, _, err := sshsig.Split(s.payloads[digest])
				must(s.TB, err)
				other, err := sshsig.NewCertifiedSigner(key, s.certificate(authority, key, "ci-2"))
				must(s.TB, err)
				armored, err := other.Sign(sshsig.ScriptNamespace, text)
				must(s.TB, err)
				s.payloads[digest] = sshsig.Join(bytes.Clone(text), armored)
				return digest
			},
			want: writ.CodeSignatureInvalid,
		},
		"no certificate": {
			submit: func(s *fixture) writ.Digest {
				digest := s.byCertificate(key, s.certificate(authority, key, "ci-1"))
				text, _, err := sshsig.Split(s.payloads[digest])
				must(s.TB, err)
				armored, err := sshsig.NewSigner(key).Sign(sshsig.ScriptNamespace, text)
				must(s.TB, err)
				s.payloads[digest] = sshsig.Join(bytes.Clone(text), armored)
				return digest
			},
			want: writ.CodeSignerUnknown,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFixture(t)
				n := s.fresh(func(*runner.Runner) {})
				s.amend(func(r *identity.Roster) {
					r.Principals = append(r.Principals, identity.Principal{Name: "deploy", Kind: identity.CI, State: identity.Active})
					r.Bindings = append(r.Bindings, identity.Binding{Principal: "deploy", Role: identity.Deployer, Project: shopProject, Destructive: true})
					r.Authorities = []identity.Authority{{
						Name: "forge", State: identity.Active, Key: sshsig.SSHKey(publicOf(authority)), Principals: []string{"deploy"},
						Life: time.Hour, KeyIDs: map[string][]string{"deploy": {"ci-*"}},
					}}
				})
				n.tell(writ.Control{Roster: s.roster.Version})
				quiet(2 * time.Second)
				volume := n.job(100, "volume.create", "data", nil)
				n.push(volume)
				n.await(volume.JobKey)
				submit := tt.submit
				if submit == nil {
					submit = func(s *fixture) writ.Digest { return s.byCertificate(key, s.certificate(authority, key, "ci-1")) }
				}
				digest, accepted := submit(s), time.Now()
				if tt.since != nil {
					s.amend(tt.since)
					n.tell(writ.Control{Roster: s.roster.Version})
				}
				quiet(tt.wait + 2*time.Second)
				job := s.destroy(1, digest, nil)
				job.Accepted = accepted.UnixMilli()
				n.push(job)
				if got := n.await(job.JobKey); codeOf(got) != tt.want {
					t.Errorf("result = %+v, want %q", got.Error, tt.want)
				}
				if acted := n.host.count(job.JobKey.String()) == 1; acted != (tt.want == "") {
					t.Errorf("it was destroyed: %v", acted)
				}
			})
		})
	}
}

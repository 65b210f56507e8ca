package identity

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"

	"writ"
)

// limitedRoster is testRoster with limits for forge: certificates of 20 minutes, until tomorrow, for one repository.
func limitedRoster() *Roster {
	r := testRoster()
	r.Authorities[0].Life, r.Authorities[0].Expires = 20*time.Minute, noon.Add(24*time.Hour)
	r.Authorities[0].KeyIDs = map[string][]string{"ci/shop": {"job-1", "repo:acme/shop:*"}}
	return r
}

func TestRosterWithAuthorityLimitsHasFormatThree(t *testing.T) {
	r := limitedRoster()
	text, err := r.Text()
	if err != nil || !strings.HasPrefix(string(text), "writ-roster: v3\n") {
		t.Fatalf("%.20s, %v", text, err)
	}
	have, err := ParseRoster(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r.Authorities[0].KeyIDs, have.Authorities.Named("forge").KeyIDs); diff != "" {
		t.Error(diff)
	}
	if a := have.Authorities.Named("forge"); a.MaxLife() != 20*time.Minute || !a.Expires.Equal(noon.Add(24*time.Hour)) {
		t.Errorf("%+v", a)
	}
	if a := have.Authorities.Named("old-forge"); a.MaxLife() != MaxCertificateLife || !a.Expires.IsZero() || a.KeyIDs != nil {
		t.Errorf("%+v", a)
	}
	golden(t, "roster-v3.writ", signRoster(t, r, "root"))
	const limits, keyID = "authority-limits: forge 20m 2026-11-22T10:00:00Z\n", "authority-key-id: forge ci/shop job-1\n"
	for name, change := range map[string][2]string{
		"in the second format":    {"writ-roster: v3", "writ-roster: v2"},
		"of an unknown authority": {limits, "authority-limits: mint 20m -\n"},
		"twice":                   {limits, limits + limits},
		"nothing said":            {limits, limits + "authority-limits: old-forge 24h -\n"},
		"a life in other units":   {"forge 20m", "forge 1200s"},
		"no life":                 {"forge 20m", "forge x"},
		"no end":                  {"2026-11-22T10:00:00Z\nauthority", "tomorrow\nauthority"},
		"a key id of no robot":    {keyID, "authority-key-id: forge ci/mail job-1\n"},
		"a key id of no forge":    {keyID, "authority-key-id: mint ci/shop job-1\n"},
		"a key id twice":          {keyID, keyID + keyID},
		"a key id with a space":   {keyID, "authority-key-id: forge ci/shop job 1\n"},
		"another order":           {limits + keyID, keyID + limits},
	} {
		bad := strings.Replace(string(text), change[0], change[1], 1)
		if _, err := ParseRoster([]byte(bad)); writ.CodeOf(err) != writ.CodePayloadMalformed || bad == string(text) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAuthorityHasItsOwnKeyAndValidLimits(t *testing.T) {
	owners := map[string]string{"the root's": "of the root", "a supervisor's": "of the supervisor of ", "a coordinator's": "of the coordinator "}
	for name, change := range map[string]func(a *Authority){
		"a person's key":      func(a *Authority) { a.Key = testPublic("alice") },
		"a removed key":       func(a *Authority) { a.Key = testPublic("alice old") },
		"another authority's": func(a *Authority) { a.Key = testPublic("old forge") },
		"the root's":          func(a *Authority) { a.Key = testPublic("root") },
		"a supervisor's":      func(a *Authority) { a.Key = testPublic("vienna") },
		"a coordinator's":     func(a *Authority) { a.Key = testPublic("front") },
		"a certificate":       func(a *Authority) { a.Key = certify(t, "forge", "a job", nil).PublicKey() },
		"no key":              func(a *Authority) { a.Key = nil },
		"a long life":         func(a *Authority) { a.Life = MaxCertificateLife + time.Second },
		"a short life":        func(a *Authority) { a.Life = time.Second },
		"half a second":       func(a *Authority) { a.Life = time.Minute + time.Second/2 },
		"an odd end":          func(a *Authority) { a.Expires = time.Unix(-1<<40, 0) },
		"no patterns":         func(a *Authority) { a.KeyIDs = map[string][]string{"ci/shop": {}} },
		"many patterns":       func(a *Authority) { a.KeyIDs = map[string][]string{"ci/shop": make([]string, 33)} },
		"patterns of another": func(a *Authority) { a.KeyIDs = map[string][]string{"ci/mail": {"job-1"}} },
		"a bad pattern":       func(a *Authority) { a.KeyIDs = map[string][]string{"ci/shop": {"*"}} },
	} {
		t.Run(name, func(t *testing.T) {
			r := testRoster()
			r.Coordinators = append(r.Coordinators, testCoordinator())
			change(&r.Authorities[0])
			_, err := r.Text()
			wantCode(t, err, writ.CodePayloadMalformed)
			if whose := owners[name]; !strings.Contains(writ.AsError(err).Message, whose) {
				t.Errorf("%v does not name the owner of the key: %s", err, whose)
			}
		})
	}
	r := testRoster()
	r.Principals[1].Keys = append(r.Principals[1].Keys, PrincipalKey{Key: testPublic("forge"), State: Active})
	_, err := r.Text()
	wantCode(t, err, writ.CodePayloadMalformed)
}

func TestKeyIDPatternsMatch(t *testing.T) {
	for pattern, ok := range map[string]bool{
		"ci-1234": true, "ci-*": true, "repo:acme/shop:*": true, "a": true, "vault/x/*": true,
		"": false, "*": false, "a*": false, ":*": false, "::*": false, ":::*": true, "repo:acme/shop*": false, "repo:*/shop": false, "repo:acme/**": false, "job 7": false, "é": false,
		"a\n": false, strings.Repeat("a", 129): false,
	} {
		if ValidKeyIDPattern(pattern) != ok {
			t.Errorf("%q: valid is not %v", pattern, ok)
		}
	}
	a := &Authority{Principals: []string{"ci/shop"}, KeyIDs: map[string][]string{"ci/shop": {"ci-1", "repo:acme/shop:*"}}}
	for keyID, ok := range map[string]bool{
		"ci-1": true, "repo:acme/shop:": true, "repo:acme/shop:ref:refs/heads/main": true,
		"ci-12": false, "ci-": false, "repo:acme/shop-evil:x": false, "xrepo:acme/shop:x": false, "REPO:acme/shop:x": false, "": false, "repo:acme/shop": false,
	} {
		cert := &ssh.Certificate{KeyId: keyID, ValidPrincipals: []string{"ci/shop"}}
		if a.standsFor(cert, "ci/shop") != ok {
			t.Errorf("%q: matches is not %v", keyID, ok)
		}
	}
}

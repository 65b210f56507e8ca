package config

import (
	"crypto/ed25519"
	"crypto/rand"
	"testing"
	"time"

	"writ"
	"writ/identity"
	"writ/identity/sshsig"
)

// A chain that conflicts with the anchor is rejected.
//
// Promise: Connections and certificates: A client, supervisor or node sends only a roster request to an unverified
// server, and plain text stays on loopback.
// How: The first contact verifies the chain from the cluster's id through the anchor; every later chain must fit the
// anchor.
// Also: TestAServerOutsideTheRostersGetsNoRequest, TestPlainTextStaysOnThisMachine.
func TestAForkOfTheAnchorIsNotKept(t *testing.T) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	root := sshsig.NewSigner(key)
	sign := func(r *identity.Roster) []byte {
		t.Helper()
		signed, err := identity.SignRoster(r, root)
		if err != nil {
			t.Fatal(err)
		}
		return signed
	}
	now := time.Now()
	first := &identity.Roster{
		Cluster: identity.ClusterOf(root.PublicKey()), Version: 1, Created: now, Expires: now.Add(time.Hour), Root: root.PublicKey(), Threshold: 1, Operators: []string{"alice"},
		Principals: []identity.Principal{{Name: "alice", Kind: identity.Person, State: identity.Active, Keys: []identity.PrincipalKey{{Key: root.PublicKey(), State: identity.Active}}}},
	}
	next := func(project string) *identity.Roster {
		t.Helper()
		r, err := first.Successor(now)
		if err != nil {
			t.Fatal(err)
		}
		r.Projects = []identity.Project{{ID: writ.ProjectID(writ.NewUUID()), Name: project}}
		return r
	}
	good, fork := next("good"), next("fork")
	anchor, err := identity.AnchorOf(good)
	if err != nil {
		t.Fatal(err)
	}
	rosters := RostersIn(t.TempDir(), first.Cluster)
	rosters.Anchor = anchor
	if _, err := rosters.Add(sign(first)); err != nil {
		t.Fatal(err)
	}
	if _, err := rosters.Add(sign(fork)); writ.CodeOf(err) != writ.CodeRosterFork {
		t.Errorf("the fork: %v", err)
	}
	if latest, err := rosters.Latest(); err != nil || latest.Version != 1 {
		t.Errorf("version %d is kept, %v", latest.Version, err)
	}
	if latest, err := rosters.Add(sign(good)); err != nil || latest.Version != 2 {
		t.Errorf("the true one: %v", err)
	}
}

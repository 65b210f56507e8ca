// Package ledgertest is the conformance suite for implementations of ledger.Ledger. It depends only on the contract.
package ledgertest

import (
	"crypto/ed25519"
	"fmt"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/identity"
	"writ/identity/sshsig"
	"writ/ledger"
)

// Run tests a ledger. open returns a new, empty ledger, which Run closes.
func Run(t *testing.T, open func(t testing.TB) ledger.Ledger) {
	for _, part := range []struct {
		name string
		test func(t *testing.T, l ledger.Ledger)
	}{
		{"rosters are stored in order and forever", testRosters},
		{"lists come from the newest roster", testRosterRows},
		{"a registration replaces no other", testRegistrations},
		{"a flood of registrations displaces only its own network's", testRegistrationFlood},
		{"a roster removes the registrations of its supervisors", testRegistrationEnds},
		{"a submission is stored once", testSubmissionOnce},
		{"waiting submissions are listed in order of arrival", testWaiting},
		{"an undelivered submission expires", testOverdue},
		{"a delivered submission is neither refused nor expired", testDelivered},
		{"a refused submission ends its run with the reason", testRefused},
		{"one of several concurrent moves wins", testOneMover},
		{"an event of a run delivers its submission", testNewsDelivers},
		{"a submission after its run is delivered", testLateSubmission},
		{"events are stored once and in order", testEventsOnce},
		{"the journals of a datacenter are limited", testManyJournals},
		{"the events of a datacenter count for its share", testShares},
		{"a gap in the events is refused without changes", testEventsGap},
		{"the last event becomes the copy", testCopies},
		{"values are not stored", testNoValues},
		{"a datacenter changes only its own records", testForeign},
		{"two sessions may send the same events", testSameEventsTwice},
		{"a new journal replaces nodes and resources", testAnotherJournal},
		{"runs without events of the journal are unreported", testUnreported},
		{"event ids grow and filters select", testEventFilters},
		{"an event belongs to the project of its run", testEventsOfProjects},
		{"lists can be filtered", testFilters},
		{"all filters can be combined", testFilterPairs},
		{"runs are found by text", testSearch},
		{"a run is found by an id prefix", testPrefixes},
		{"open runs without events are found", testSilent},
		{"open runs that repeat a call are found", testRepeating},
		{"counts are correct", testCounts},
		{"an ended run is counted once", testEndedCounts},
		{"failures are grouped by code and operation", testFailures},
		{"deployments own resources", testDeployments},
		{"nodes are found by id and name", testNodes},
		{"usage is added up by resource and only grows", testUsage},
		{"usage is limited to the possible", testImpossibleUsage},
		{"webhook progress is stored", testWebhooks},
		{"foreign cursors are refused", testCursors},
		{"unstorable text is a bad request", testOddTexts},
		{"old records are deleted, others stay", testPrune},
		{"a revision stays until another one replaces it", testPruneRevisions},
		{"a working ledger passes the check", testCheck},
		{"runs that only read logs are omitted on request", testLogRuns},
		{"pages contain each item once", testPages},
		{"only legal moves occur", testMoves},
	} {
		t.Run(strings.ReplaceAll(part.name, " ", "_"), func(t *testing.T) {
			l := open(t)
			defer func() {
				if err := l.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			}()
			part.test(t, l)
		})
	}
}

// The datacenters and projects of the suite.
const (
	east    = writ.DatacenterID("0192f6c2-0000-7000-8000-00000000000a")
	west    = writ.DatacenterID("0192f6c2-0000-7000-8000-00000000000b")
	shop    = writ.ProjectID("0192f6c2-0000-7000-8000-0000000000c1")
	bank    = writ.ProjectID("0192f6c2-0000-7000-8000-0000000000c2")
	journal = "0192f6c2-0000-7000-8000-0000000000d1"
)

// epoch is the time base of the suite. Stores keep microseconds.
var epoch = time.Date(2026, 11, 21, 10, 0, 0, 123456000, time.UTC)

func at(second int) time.Time { return epoch.Add(time.Duration(second) * time.Second) }

// incoming returns the n-th submission of the suite, received at second n.
func incoming(n int, datacenter writ.DatacenterID) ledger.Incoming {
	payload := writ.DigestOf(fmt.Appendf(nil, "payload %d", n))
	return ledger.Incoming{
		Submission: writ.Submission{
			Payload: payload, Run: writ.RunIDOf(payload), Datacenter: datacenter, Project: shop,
			Signer: "alice", Script: "web.tengo", State: writ.SubmissionWaiting,
			Received: at(n), Expires: at(n + 900),
		},
		ProjectName: "web-shop",
		Deployment:  "web",
		Signed:      fmt.Appendf(nil, "signed %d", n),
	}
}

// runOf returns the datacenter's record of a submission's run.
func runOf(in ledger.Incoming, state writ.RunState) writ.Run {
	run := writ.Run{
		ID: in.Run, Datacenter: in.Datacenter, Project: in.Project, ProjectName: in.ProjectName,
		Deployment: in.Deployment,
		Signer:     in.Signer, Script: in.Script, Payload: in.Payload, State: state,
		Accepted: in.Received.Add(time.Second), Deadline: in.Received.Add(time.Hour),
	}
	if state.Ended() {
		run.Ended = in.Received.Add(time.Minute)
	}
	return run
}

// events assigns events to the suite's journal and numbers them, starting with `first`.
func events(first int64, all ...writ.Event) []writ.Event {
	for i := range all {
		all[i].Journal = journal
		all[i].Seq = first + int64(i)
		all[i].Time = epoch
	}
	return all
}

func runEvent(run writ.Run) writ.Event    { return writ.Event{Run: &run} }
func callEvent(call writ.Call) writ.Event { return writ.Event{Call: &call} }

func add(t testing.TB, l ledger.Ledger, in ledger.Incoming) {
	t.Helper()
	if _, added, err := l.AddSubmission(t.Context(), in); err != nil || !added {
		t.Fatalf("add submission: added %v, %v", added, err)
	}
}

func store(t testing.TB, l ledger.Ledger, datacenter writ.DatacenterID, events []writ.Event) {
	t.Helper()
	if err := l.StoreEvents(t.Context(), datacenter, events); err != nil {
		t.Fatalf("store events: %v", err)
	}
}

func wantCode(t testing.TB, what string, err error, code writ.Code) {
	t.Helper()
	if got := writ.CodeOf(err); got != code {
		t.Errorf("%s: %v (%s); want %s", what, err, got, code)
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// root signs the rosters of the suite.
var root = sshsig.NewSigner(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))

// supervisorKey returns the key of the n-th supervisor.
func supervisorKey(n int) ed25519.PublicKey {
	seed := make([]byte, ed25519.SeedSize)
	seed[0] = byte(n)
	return ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)
}

// roster returns a signed roster with these datacenters.
func roster(t testing.TB, version int, datacenters ...identity.Datacenter) (*identity.Roster, []byte) {
	t.Helper()
	r := &identity.Roster{
		Version: version, Root: root.PublicKey(), Cluster: identity.ClusterOf(root.PublicKey()),
		Created: at(0), Expires: at(0).Add(identity.RosterValidity), Threshold: 1, Operators: []string{"alice"},
		Principals: []identity.Principal{{
			Name: "alice", Kind: identity.Person, State: identity.Active,
			Keys: []identity.PrincipalKey{{Key: root.PublicKey(), State: identity.Active}},
		}},
		Projects:    []identity.Project{{ID: shop, Name: "web-shop"}, {ID: bank, Name: "bank"}},
		Datacenters: datacenters,
	}
	signed, err := identity.SignRoster(r, root)
	if err != nil {
		t.Fatal(err)
	}
	return r, signed
}

func datacenter(id writ.DatacenterID, name, region string, key int) identity.Datacenter {
	return identity.Datacenter{
		Datacenter:    writ.Datacenter{ID: id, Name: name, Region: region, Labels: map[string]string{"tier": "gold"}},
		SupervisorKey: supervisorKey(key), Enabled: true,
	}
}

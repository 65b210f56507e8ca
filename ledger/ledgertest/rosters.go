package ledgertest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/identity"
	"writ/ledger"
)

func testRosters(t *testing.T, l ledger.Ledger) {
	ctx := t.Context()
	r1, signed1 := roster(t, 1)
	r2, signed2 := roster(t, 2, datacenter(east, "east", "eu", 1))
	r5, signed5 := roster(t, 5)
	ok(t, l.AddRoster(ctx, r2, signed2))
	wantCode(t, "an older version", l.AddRoster(ctx, r1, signed1), writ.CodeConflict)
	ok(t, l.AddRoster(ctx, r2, signed2)) // again
	wantCode(t, "the same version with other bytes", l.AddRoster(ctx, r2, append([]byte{'x'}, signed2...)),
		writ.CodeConflict)
	ok(t, l.AddRoster(ctx, r5, signed5)) // a recovery skips versions
	for after, want := range map[int][]int{0: {2, 5}, 2: {5}, 4: {5}, 5: nil} {
		links, err := l.RosterLinks(ctx, after)
		var got []int
		for _, link := range links {
			got = append(got, link.Version)
		}
		if err != nil || !cmp.Equal(got, want) {
			t.Errorf("after %d: versions %v, %v; want %v", after, got, err, want)
		}
	}
	if got, err := l.Roster(ctx, 2); err != nil || string(got) != string(signed2) {
		t.Errorf("version 2: %d bytes, %v", len(got), err)
	}
	_, err := l.Roster(ctx, 3)
	wantCode(t, "a skipped version", err, writ.CodeNotFound)
}

func testRosterRows(t *testing.T, l ledger.Ledger) {
	ctx := t.Context()
	closed := datacenter(west, "west", "us", 2)
	closed.Enabled = false
	r1, signed1 := roster(t, 1, closed, datacenter(east, "east", "eu", 1))
	ok(t, l.AddRoster(ctx, r1, signed1))
	datacenters, err := l.Datacenters(ctx)
	if err != nil || len(datacenters) != 2 {
		t.Fatalf("datacenters: %v, %v", datacenters, err)
	}
	if d := datacenters[0]; d.ID != east || d.Name != "east" || d.Region != "eu" || !d.Enabled ||
		d.Labels["tier"] != "gold" || !strings.HasPrefix(d.Key, "SHA256:") {
		t.Errorf("first datacenter: %+v", d)
	}
	if d := datacenters[1]; d.ID != west || d.Enabled {
		t.Errorf("second datacenter: %+v", d)
	}
	r2, signed2 := roster(t, 2, datacenter(east, "east", "us", 1), datacenter(west, "west", "us", 2))
	ok(t, l.AddRoster(ctx, r2, signed2))
	regions, err := l.Regions(ctx)
	if diff := cmp.Diff([]ledger.Region{{Name: "us", Datacenters: 2}}, regions); err != nil || diff != "" {
		t.Errorf("regions: %v\n%s", err, diff)
	}
	projects, err := l.Projects(ctx)
	if diff := cmp.Diff([]identity.Project{{ID: bank, Name: "bank"}, {ID: shop, Name: "web-shop"}}, projects); err !=
		nil || diff != "" {
		t.Errorf("projects: %v\n%s", err, diff)
	}
}

func registration(key int, token string) ledger.Registration {
	return ledger.Registration{
		Token: token, Name: "north", Key: supervisorKey(key), Nonce: []byte("nonce"), Proof: []byte("proof"),
		URL: "http://127.0.0.1:7441", Network: "192.0.2.1/32", Received: at(key),
	}
}

// from moves a registration to another network and removes its proof.
func from(network string, r ledger.Registration) ledger.Registration {
	r.Network, r.Proof = network, []byte{}
	return r
}

func testRegistrations(t *testing.T, l ledger.Ledger) {
	ctx := t.Context()
	first := registration(1, "a")
	again := from("198.51.100.7/32", first)
	again.Proof, again.Received = first.Proof, at(2)
	forged := first
	forged.Proof, forged.Received = []byte("junk"), at(3)
	ok(t, errors.Join(l.AddRegistration(ctx, first), l.AddRegistration(ctx, again), l.AddRegistration(ctx, forged)))
	got, err := l.Registrations(ctx)
	if diff := cmp.Diff([]ledger.Registration{first, forged}, got); err != nil || diff != "" {
		t.Errorf("after a duplicate and another proof: %v\n%s", err, diff)
	}
	ok(t, l.RemoveRegistrations(ctx, at(3)))
	got, err = l.Registrations(ctx)
	if diff := cmp.Diff([]ledger.Registration{forged}, got); err != nil || diff != "" {
		t.Errorf("after the first was removed: %v\n%s", err, diff)
	}
}

func testRegistrationFlood(t *testing.T, l ledger.Ledger) {
	ctx := t.Context()
	const flood, office = "192.0.2.1/32", "10.0.0.1/32"
	proven, other := registration(1, "a"), from(office, registration(2, ""))
	ok(t, errors.Join(l.AddRegistration(ctx, proven), l.AddRegistration(ctx, other)))
	const last = ledger.MaxRegistrations + 10
	for n := 3; n <= last; n++ {
		ok(t, l.AddRegistration(ctx, from(flood, registration(n, ""))))
	}
	waiting := func() (keys map[string]bool) {
		t.Helper()
		got, err := l.Registrations(ctx)
		if err != nil || len(got) != ledger.MaxRegistrations {
			t.Fatalf("%d wait, %v; want %d", len(got), err, ledger.MaxRegistrations)
		}
		keys = make(map[string]bool)
		for _, r := range got {
			keys[string(r.Key)] = true
		}
		return keys
	}
	keys := waiting()
	for n, want := range map[int]bool{1: true, 2: true, 3: false, 12: false, 13: true, last: true} {
		if keys[string(supervisorKey(n))] != want {
			t.Errorf("registration %d waits: %v, want %v", n, !want, want)
		}
	}
	for n := range ledger.MaxRegistrations { // the same network again, with an invalid proof in each registration
		ok(t, l.AddRegistration(ctx, registration(last+1+n, "b")))
	}
	if keys := waiting(); !keys[string(supervisorKey(2))] || keys[string(supervisorKey(1))] ||
		keys[string(supervisorKey(last))] {
		t.Error("a flood with proofs must displace its own registrations without one, then its oldest")
	}
	wantCode(t, "without a proof in a network with proofs", l.AddRegistration(ctx, from(flood, registration(last, ""))),
		writ.CodeRateLimited)
	ok(t, l.AddRegistration(ctx, from("10.0.0.2/32", registration(3, ""))))
	if keys := waiting(); !keys[string(supervisorKey(2))] || !keys[string(supervisorKey(3))] {
		t.Error("another network has no room")
	}
}

func testRegistrationEnds(t *testing.T, l ledger.Ledger) {
	ctx := t.Context()
	ok(t, errors.Join(l.AddRegistration(ctx, registration(1, "a")), l.AddRegistration(ctx, registration(1, "")),
		l.AddRegistration(ctx, registration(2, ""))))
	r, signed := roster(t, 1, datacenter(east, "east", "eu", 1))
	ok(t, l.AddRoster(ctx, r, signed))
	got, err := l.Registrations(ctx)
	if err != nil || len(got) != 1 || !got[0].Received.Equal(at(2)) {
		t.Errorf("waiting: %v, %v; want only the second supervisor", got, err)
	}
}

func testCheck(t *testing.T, l ledger.Ledger) {
	ok(t, l.Check(t.Context()))
}

func testPrune(t *testing.T, l ledger.Ledger) {
	ctx := t.Context()
	var in [4]ledger.Incoming
	for i := range in {
		in[i] = incoming(i+1, east)
		in[i].Deployment = "" // testPruneRevisions has deployments
		add(t, l, in[i])
	}
	if end, err := l.LatestEnd(ctx); err != nil || !end.IsZero() {
		t.Errorf("the latest end is %s, %v before any run has ended", end, err)
	}
	store(t, l, east, events(1,
		runEvent(runOf(in[0], writ.RunSucceeded)),
		callEvent(writ.Call{Run: in[0].Run, Seq: 1, State: writ.CallSucceeded}),
		runEvent(runOf(in[1], writ.RunFailed)),
		runEvent(runOf(in[2], writ.RunRunning)),
	))
	if end, err := l.LatestEnd(ctx); err != nil || !end.Equal(runOf(in[1], writ.RunFailed).Ended) {
		t.Errorf("the latest end is %s, %v", end, err)
	}
	old := at(1).Add(time.Minute + time.Second) // only the first run ended before
	ok(t, l.Prune(ctx, time.Time{}, old))
	_, err := l.Run(ctx, in[0].Run)
	wantCode(t, "the old run", err, writ.CodeNotFound)
	_, err = l.Submission(ctx, in[0].Payload)
	wantCode(t, "its submission", err, writ.CodeNotFound)
	if calls, err := l.Calls(ctx, in[0].Run, ledger.Page{}); err != nil || len(calls.Items) != 0 {
		t.Errorf("its calls: %v, %v", calls, err)
	}
	for _, one := range in[1:] {
		if _, err := l.Run(ctx, one.Run); err != nil {
			t.Errorf("another run: %v", err)
		}
	}

	_, newest, err := l.EventRange(ctx)
	ok(t, err)
	ok(t, l.Prune(ctx, time.Now().Add(time.Hour), time.Time{}))
	left, _, err := l.Events(ctx, 0, ledger.EventFilter{}, 100)
	if err != nil || len(left) != 0 {
		t.Errorf("events left: %d, %v", len(left), err)
	}
	if oldest, same, err := l.EventRange(ctx); err != nil || same != newest || oldest != newest+1 {
		t.Errorf("range without events: %d to %d, %v; want the newest to stay %d", oldest, same, err, newest)
	}
	if last, _, err := l.LastEvent(ctx, east, journal); err != nil || last != 4 {
		t.Errorf("the journal stands at %d, %v; want 4", last, err)
	}
	store(t, l, east, events(5, runEvent(runOf(in[2], writ.RunSucceeded))))
	if next, _, err := l.Events(ctx, newest, ledger.EventFilter{}, 100); err != nil || len(next) != 1 ||
		next[0].ID != newest+1 {
		t.Errorf("after pruning: %+v, %v; ids must continue", next, err)
	}
}

package expiring_test

import (
	"slices"
	"testing"
	"time"

	"writ"
	"writ/identity"
	"writ/identity/expiring"
)

// Promise: Signatures and rosters: Commands, dashboard, metrics and logs warn before a roster or role expires: 30, 7
// and 1 days before, at the end, and for a roster from half of its life on.
// How: `expiring.InRoster` lists the expiring roles, keys and rosters.
// Also: TestRosterWarnsFromHalfOfItsLife, TestDashboardShowsWhichRoleEndsNext,
// TestRosterExpiryIsLoggedOncePerStage, TestRolesThatEndAreMetrics, TestCoordinatorReportsExpiringItems,
// TestHealthReadinessMetricsAndSpec, TestSupervisorLogsRosterExpiry, TestNoticeIsOnEveryPage,
// TestScripts/refused, TestCommandsWarnOfTheEndOfTheRoster, TestEveryCommandThatSignsWarnsOfARoleThatEnds.
func TestExpiriesAreKnownInAdvance(t *testing.T) {
	const day = 24 * time.Hour
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	in := func(d time.Duration) time.Time { return now.Add(d) }
	role := func(who string, role identity.Role, project string, destructive bool, ends time.Time) identity.Binding {
		return identity.Binding{Principal: who, Role: role, Project: writ.ProjectID(project), Destructive: destructive, Expires: ends}
	}
	r := &identity.Roster{
		Version: 3, Created: now, Expires: in(90 * day),
		Principals: []identity.Principal{{Name: "alice", State: identity.Active}, {Name: "bob", State: identity.Active}, {Name: "gone", State: identity.Revoked}},
		Authorities: []identity.Authority{
			{Name: "forge", State: identity.Active, Expires: in(10 * day)}, {Name: "old", State: identity.Removed, Expires: in(day)}, {Name: "ever", State: identity.Active},
		},
		Projects: []identity.Project{{ID: writ.ProjectID("p1"), Name: "shop"}},
		Bindings: []identity.Binding{
			role("alice", identity.Deployer, "p1", false, in(20*day)),
			role("alice", identity.Viewer, "p1", false, in(20*day)), // the next binding never expires
			role("alice", identity.Viewer, "*", false, time.Time{}),
			role("bob", identity.Deployer, "p1", true, in(5*day)), // the next binding is not destructive
			role("bob", identity.Deployer, "p1", false, in(40*day)),
			role("bob", identity.Operator, "*", false, in(2*day)),
			role("bob", identity.Operator, "*", false, in(2*day)), // a duplicate
			role("bob", identity.Admin, "*", false, time.Time{}),
			role("gone", identity.Deployer, "p1", false, in(day)),
		},
	}
	var got []string
	for _, e := range expiring.InRoster(r) {
		got = append(got, e.String()+": "+e.Renew)
	}
	want := []string{
		"the role operator of bob on all projects expires on 2026-11-03: writ user add bob --role operator --project '*'",
		"the role deployer of bob on shop expires on 2026-11-06: writ user add bob --role deployer --project 'shop' --destructive",
		"the authority forge expires on 2026-11-11: writ ca add forge --valid 2160h",
		"the role deployer of alice on shop expires on 2026-11-21: writ user add alice --role deployer --project 'shop'",
		"the role deployer of bob on shop expires on 2026-12-11: writ user add bob --role deployer --project 'shop'",
		"version 3 of the roster expires on 2027-01-30: writ roster renew",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	for left, want := range map[time.Duration]int{31 * day: 0, 30 * day: 1, 7*day + 1: 1, 7 * day: 2, day: 3, time.Second: 3, 0: 4, -day: 4} {
		e := expiring.Item{At: in(left)}
		if got := e.Stage(now); got != want {
			t.Errorf("%s before the end the stage is %d, want %d", left, got, want)
		}
		if e.Ended(now) != (want == 4) {
			t.Errorf("%s before the end: ended %v", left, e.Ended(now))
		}
	}
}

package expiry

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"writ/identity"
)

func TestRosterWarnsFromHalfOfItsLife(t *testing.T) {
	made := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	r := &identity.Roster{Version: 7, Created: made, Expires: made.Add(90 * 24 * time.Hour)}
	for _, tt := range []struct {
		after time.Duration
		says  string
	}{
		{0, ""},
		{45*24*time.Hour - time.Second, ""},
		{45 * 24 * time.Hour, "Version 7 of the roster expires on 2026-04-01."},
		{90*24*time.Hour + time.Second, "Version 7 of the roster expired on 2026-04-01: no datacenter accepts new work."},
	} {
		got := renewalNotice(r, made.Add(tt.after))
		if (tt.says == "") != (got == "") || !strings.HasPrefix(got, tt.says) || got != "" && !strings.Contains(got, "writ roster renew") {
			t.Errorf("after %s: %q, want %q", tt.after, got, tt.says)
		}
	}
	if got := renewalNotice(nil, made); got != "" {
		t.Errorf("without a roster: %q", got)
	}
}

// withRoles returns a roster of 90 days with two roles that end.
func withRoles(made time.Time) *identity.Roster {
	role := func(who string, role identity.Role, ends time.Duration) identity.Binding {
		return identity.Binding{Principal: who, Role: role, Project: "*", Expires: made.Add(ends)}
	}
	return &identity.Roster{
		Version: 7, Created: made, Expires: made.Add(90 * day),
		Principals: []identity.Principal{{Name: "alice", State: identity.Active}, {Name: "bob", State: identity.Active}},
		Bindings:   []identity.Binding{role("alice", identity.Deployer, 40*day), role("bob", identity.Operator, 41*day)},
	}
}

func TestDashboardShowsWhichRoleEndsNext(t *testing.T) {
	made := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	r := withRoles(made)
	for after, want := range map[time.Duration]string{
		9 * day:   "",
		10 * day:  "A role ends soon: the role deployer of alice on all projects expires on 2026-02-10. A root operator extends it with writ user add alice --role deployer --project '*'.",
		11 * day:  "A role ends soon: the role deployer of alice on all projects expires on 2026-02-10. A root operator extends it with writ user add alice --role deployer --project '*'. 1 more expire within 30 days: see writ user list.",
		40 * day:  "A role ends soon: the role operator of bob on all projects expires on 2026-02-11. A root operator extends it with writ user add bob --role operator --project '*'.",
		100 * day: "",
	} {
		if got := rolesNotice(r, made.Add(after)); got != want {
			t.Errorf("after %s: %q, want %q", after, got, want)
		}
	}
}

// An expiry is logged once each at 30, 7 and 1 days before, and when it has passed. A renewed roster is logged again.
func TestRosterExpiryIsLoggedOncePerStage(t *testing.T) {
	begun := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	now := begun
	var log bytes.Buffer
	r := withRoles(begun)
	w := &Watch{Roster: func() *identity.Roster { return r }, Now: func() time.Time { return now }, Log: slog.New(slog.NewTextHandler(&log, nil))}
	r.Bindings = r.Bindings[:1]
	var got []string
	look := func() {
		log.Reset()
		w.Warn(t.Context())
		for line := range strings.Lines(log.String()) {
			_, message, _ := strings.Cut(line, "msg=")
			message, _, _ = strings.Cut(message, " at=")
			level := strings.Fields(line)[1]
			got = append(got, now.Format(time.DateOnly)+" "+level+" "+strings.Trim(message, "\""))
		}
	}
	for ; now.Before(begun.Add(92 * day)); now = now.Add(6 * time.Hour) {
		look()
	}
	first, renewed := r, withRoles(now)
	renewed.Version, renewed.Bindings = 8, nil
	r = renewed
	look()
	now = now.Add(89 * day)
	look()
	want := []string{
		"2026-01-11 level=WARN the role deployer of alice on all projects expires on 2026-02-10",
		"2026-02-03 level=WARN the role deployer of alice on all projects expires on 2026-02-10",
		"2026-02-09 level=WARN the role deployer of alice on all projects expires on 2026-02-10",
		"2026-02-10 level=WARN the role deployer of alice on all projects has expired",
		"2026-03-02 level=WARN version 7 of the roster expires on 2026-04-01",
		"2026-03-25 level=WARN version 7 of the roster expires on 2026-04-01",
		"2026-03-31 level=WARN version 7 of the roster expires on 2026-04-01",
		"2026-04-01 level=ERROR version 7 of the roster has expired: no datacenter accepts new work",
		"2026-06-30 level=WARN version 8 of the roster expires on 2026-07-02",
	}
	want[len(want)-1] = now.Format(time.DateOnly) + " level=WARN version 8 of the roster expires on " + renewed.Expires.Format(time.DateOnly)
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	w.warned, r = nil, first // restarted, long after a role has ended
	now, got = begun.Add(41*day), nil
	if look(); got != nil {
		t.Errorf("warning about a role that has ended: %q", got)
	}
}

// The expiry of a certificate for browsers is logged 30, 7 and 1 days before, but only in the last third of its
// validity, when programs renew it. From then on the dashboard shows it, next to the notice about the roster.
//
// Promise: Connections and certificates: The log and dashboard warn 30, 7 and 1 days before a browser certificate
// expires, but only within the last third of its lifetime.
// How: A metric holds the expiry time.
// Also: TestNoticesAreShownTogether, TestHealthReadinessMetricsAndSpec.
func TestBrowserCertificateExpiryIsLoggedPerStage(t *testing.T) {
	begun := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const (
		ends  = "level=WARN msg=\"the certificate for browsers expires on "
		ended = "level=WARN msg=\"the certificate for browsers has expired"
	)
	for name, tt := range map[string]struct {
		life time.Duration
		told []time.Duration // before the end
	}{
		"a year":   {365 * day, []time.Duration{30 * day, 7 * day, day, 0}},
		"90 days":  {90*day - time.Second, []time.Duration{7 * day, day, 0}},
		"six days": {6 * day, []time.Duration{day, 0}},
	} {
		now, until := begun, begun.Add(tt.life)
		var log bytes.Buffer
		w := &Watch{
			Roster: func() *identity.Roster { return nil }, Now: func() time.Time { return now }, Log: slog.New(slog.NewTextHandler(&log, nil)),
			Public: func() (time.Time, time.Time) { return until.Add(-tt.life), until },
		}
		told := 0
		for ; now.Before(until.Add(day)); now = now.Add(time.Hour) {
			for told < len(tt.told) && !now.Before(until.Add(-tt.told[told])) {
				told++
			}
			w.Warn(t.Context())
			wantEnds, wantEnded := min(told, len(tt.told)-1), told/len(tt.told)
			if got := log.String(); strings.Count(got, ends) != wantEnds || strings.Count(got, ended) != wantEnded || strings.Count(got, "--tls-cert") != told {
				t.Fatalf("%s, at %s: want %d lines and %d:\n%s", name, now, wantEnds, wantEnded, got)
			}
			shown := w.Notice(true)
			if (told > 0) != strings.HasPrefix(shown, "The certificate for browsers expire") || (wantEnded > 0) != strings.Contains(shown, "browsers warn of this page") {
				t.Fatalf("%s, at %s: notice = %q", name, now, shown)
			}
		}
		until = now.Add(tt.life)
		log.Reset()
		if w.Warn(t.Context()); log.Len() > 0 || w.Notice(true) != "" {
			t.Errorf("%s, once it was renewed: %q, %s", name, w.Notice(true), &log)
		}
		now = until
		if w.Warn(t.Context()); strings.Count(log.String(), ended) != 1 {
			t.Errorf("%s, the next one has expired: %s", name, &log)
		}
	}
}

func TestNoticesAreShownTogether(t *testing.T) {
	founded := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	now := founded.Add(80 * day)
	w := &Watch{
		Roster: func() *identity.Roster { return withRoles(founded) }, Now: func() time.Time { return now },
		Public: func() (time.Time, time.Time) { return founded, founded.Add(81 * day) },
	}
	if got := w.Notice(true); !strings.Contains(got, "writ roster renew. The certificate for browsers expires on 2026-03-23.") {
		t.Errorf("%q", got)
	}
	w.Public = nil
	if got := w.Notice(true); !strings.HasSuffix(got, "writ roster renew.") {
		t.Errorf("without a certificate for browsers: %q", got)
	}
}

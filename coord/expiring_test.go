package coord

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"writ/identity"
	"writ/internal/metrics"
	"writ/internal/test/metricspage"
)

const day = 24 * time.Hour

func TestRolesThatEndAreMetrics(t *testing.T) {
	role := func(who string, role identity.Role, ends time.Duration) identity.Binding {
		return identity.Binding{Principal: who, Role: role, Project: "*", Expires: time.Unix(0, 0).UTC().Add(ends)}
	}
	r := &identity.Roster{
		Principals: []identity.Principal{{Name: "alice", State: identity.Active}, {Name: "bob", State: identity.Active}},
		Bindings:   []identity.Binding{role("alice", identity.Deployer, 40*day), role("alice", identity.Deployer, 41*day)},
	}
	r.Bindings[1].Destructive = true // it ends later and has more rights
	r.Bindings = append(r.Bindings, identity.Binding{Principal: "bob", Role: identity.Viewer, Project: "*"},
		identity.Binding{Principal: "bob", Role: identity.Admin, Project: "*", Expires: time.Unix(99, 0)})
	page := metricspage.Read(t, func(to *metrics.Scrape) { sendRoster(r, to) })
	var got []string
	for _, m := range page["writ_role_expires_seconds"].GetMetric() {
		text := ""
		for _, l := range m.GetLabel() {
			text += l.GetName() + "=" + l.GetValue() + " "
		}
		got = append(got, fmt.Sprintf("%s%v", text, m.GetGauge().GetValue()))
	}
	want := []string{
		"principal=alice project=* role=deployer 3.5424e+06",
		"principal=bob project=* role=admin 99",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// A running coordinator reports expiring items on its pages, in its metrics and in its log.
func TestCoordinatorReportsExpiringItems(t *testing.T) {
	p := start(t, func(c *Config) {
		c.PublicCertificate = func() (from, until time.Time) { return time.Unix(0, 0), time.Unix(86400, 0) }
	})
	next := successor(t, firstRoster(), func(next *identity.Roster) {
		i := slices.IndexFunc(next.Bindings, func(b identity.Binding) bool { return b.Role == identity.Deployer })
		next.Bindings[i].Expires = time.Now().Add(20 * day).UTC().Truncate(time.Second)
	})
	if _, err := p.AddRoster(t.Context(), signedRoster(t, next)); err != nil {
		t.Fatal(err)
	}
	for path, says := range map[string][]string{
		"/":        {"A role ends soon: the role deployer of alice on all projects expires on", "The certificate for browsers expired on 1970-01-02"},
		"/metrics": {"writ_role_expires_seconds{principal=\"alice\",project=\"*\",role=\"deployer\"} ", "writ_roster_expires_seconds "},
	} {
		_, body := p.get(path)
		for _, text := range says {
			if !strings.Contains(body, text) {
				t.Errorf("%s does not contain %q", path, text)
			}
		}
	}
	p.stop() // also waits for the first check
	if n := p.log.Lines("the certificate for browsers has expired"); n != 1 {
		t.Errorf("expiry logged %d times, want 1:\n%s", n, p.log)
	}
}

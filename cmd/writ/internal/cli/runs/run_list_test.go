package runs

import (
	"slices"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/terminal"
	"writ/coord/api"
)

func TestTimesInThePastAreReadAsPeopleWriteThem(t *testing.T) {
	zone := time.FixedZone("east", 2*60*60)
	now := time.Date(2026, 3, 10, 12, 30, 0, 0, zone)
	for text, want := range map[string]time.Time{
		"2h": now.Add(-2 * time.Hour), "90m": now.Add(-90 * time.Minute), "7d": now.AddDate(0, 0, -7), "2026-03-01": time.Date(2026, 3, 1, 0, 0, 0, 0, zone),
		"2026-03-01T12:00:00Z": time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		"2026-03-10":           time.Date(2026, 3, 10, 0, 0, 0, 0, zone), "2026-03-10T10:30:59Z": time.Date(2026, 3, 10, 10, 30, 59, 0, time.UTC),
	} {
		if got, err := cli.SinceTime(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%s: %s, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"x", "-2h", "0s", "0d", "-1d", "999999d", "2026-13-01", "yesterday", "2026-03-01 12:00", "d"} {
		if got, err := cli.SinceTime(text, now); writ.CodeOf(err) != writ.CodeUsage {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"2099-01-01", "2026-03-11", "2026-03-10T10:32:00Z"} {
		if _, err := cli.SinceTime(text, now); writ.CodeOf(err) != writ.CodeUsage || !strings.Contains(err.Error(), "is in the future") ||
			writ.AsError(err).Hint == "" {
			t.Errorf("%s is in the future: %v", text, err)
		}
	}
}

// Unset filters are not sent, because an earlier coordinator rejects unknown parameters.
func TestRunListSendsOnlyGivenFilters(t *testing.T) {
	plain, err := (&runFilterFlags{datacenter: "east"}).params(time.Now())
	if err != nil || plain.Prefix != nil || plain.Script != nil || plain.Deployment != nil || plain.Since != nil || plain.Stuck != nil || plain.Why != nil {
		t.Errorf("%+v, %v", plain, err)
	}
	stuck, err := (&runFilterFlags{stuck: 5 * time.Minute, script: "a.tengo"}).params(time.Now())
	if err != nil || *stuck.Stuck != 300 || !*stuck.Why || *stuck.Script != "a.tengo" {
		t.Errorf("%+v, %v", stuck, err)
	}
	open, err := (&runFilterFlags{states: []string{"open", "failed"}}).params(time.Now())
	if want := []api.RunState{api.RunStateWaiting, api.RunStateAccepted, api.RunStateRunning, api.RunStateFailed}; err != nil || !slices.Equal(open.State, want) {
		t.Errorf("%v, %v", open.State, err)
	}
	for _, wrong := range []runFilterFlags{{since: "soon"}, {states: []string{"done"}}} {
		if _, err := wrong.params(time.Now()); writ.CodeOf(err) != writ.CodeUsage {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
}

// A narrow terminal shows the deployment, and omits less important columns.
func TestListOfRunsShowsDeployments(t *testing.T) {
	run := api.Run{
		ID: "abcdefghijklmnopqrstuvwxyz", State: api.RunStateSucceeded, Script: "web-servers.tengo", Datacenter: "d", ProjectName: "default",
		Signer: "alice@example.org", Created: time.Now().Add(-49 * time.Hour), Deployment: "shop",
	}
	other := run
	other.ID, other.Deployment = "zyxwvutsrqponmlkjihgfedcba", ""
	view := runTable(api.RunPage{Items: []api.Run{run, other}}, map[writ.DatacenterID]string{"d": "amsterdam-1"}, false)
	var out strings.Builder
	screen := terminal.Terminal{Out: &out, Columns: 80, Format: terminal.Table}
	if err := screen.Print(view); err != nil {
		t.Fatal(err)
	}
	want := `RUN       STATE      SCRIPT          DATACENTER   SIGNER         AGE  DEPLOYMENT
abcdefgh  succeeded  web-servers.t…  amsterdam-1  alice@exampl…  2d   shop
zyxwvuts  succeeded  web-servers.t…  amsterdam-1  alice@exampl…  2d   -
`
	if out.String() != want {
		t.Errorf("in 80 columns it shows\n%swant\n%s", out.String(), want)
	}
	if i := slices.Index(view.Rows[0], "deployment"); i < 0 || view.Rows[1][i] != "shop" || view.Rows[2][i] != "" {
		t.Errorf("the rows of CSV are %q", view.Rows)
	}
}

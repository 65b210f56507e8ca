package doctor

import (
	"strings"
	"testing"
	"time"

	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/terminal"
	"writ/identity"
	"writ/internal/test/testenv"
)

// TestCommandsWarnOfTheEndOfTheRoster checks the doctor and a signing command in each stage of a roster's life.
func TestCommandsWarnOfTheEndOfTheRoster(t *testing.T) {
	created := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	roster := &identity.Roster{Version: 3, Created: created, Expires: created.Add(identity.RosterValidity)}
	for _, tt := range []struct {
		what  string
		now   time.Time
		state string
		says  []string // texts in both outputs, in addition to the renewal command; nil means no output
	}{
		{"it is new", created, healthy, nil},
		{"half of its time is nearly over", roster.RenewFrom(), healthy, nil},
		{"half of its time is over", roster.RenewFrom().Add(time.Second), suspect, []string{}},
		{"it ends", roster.Expires, suspect, []string{}},
		{"it has ended", roster.Expires.Add(time.Second), ill, []string{"no datacenter accepts new work"}},
	} {
		f := examineAge(roster, tt.now)
		said := new(testenv.Log)
		(&cli.Env{Terminal: &terminal.Terminal{Notices: terminal.Notices{Err: said}}}).WarnOfAge(roster, tt.now)
		if f.State != tt.state || f.Check != "roster" || !strings.Contains(f.Detail, "version 3, until 2026-04-01") {
			t.Errorf("%s: the doctor finds %+v, want %s", tt.what, f, tt.state)
		}
		for who, text := range map[string]string{"the doctor": f.Fix, "a command": said.String()} {
			if tt.says == nil && text != "" {
				t.Errorf("%s: output of %s = %q, want none", tt.what, who, text)
			}
			if tt.says == nil {
				continue
			}
			for _, words := range append(tt.says, "a root operator", "`writ roster renew`") {
				if !strings.Contains(text, words) {
					t.Errorf("%s: output of %s = %q, without %q", tt.what, who, text, words)
				}
			}
		}
		if tt.says != nil && !strings.Contains(said.String(), "version 3 of the roster expire") {
			t.Errorf("%s: output of a command = %q", tt.what, said)
		}
	}
}

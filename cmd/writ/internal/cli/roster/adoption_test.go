package roster

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/terminal"
	"writ/identity"
)

func TestUnprovedChangeNamesItsRisk(t *testing.T) {
	m := amendment{change: "bob is removed", effect: "signatures of bob are rejected from now on", before: "still accepts signatures of bob"}
	text := m.unproved(&identity.Roster{Version: 7}, []string{"east: version 6"})
	for _, want := range []string{"version 7 of the roster is signed (bob is removed)", "these datacenters have not confirmed it: east: version 6",
		"until a datacenter has this version, it still accepts signatures of bob", "writ roster show"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q lacks %q", text, want)
		}
	}
	if strings.Contains(text, m.effect) {
		t.Errorf("%q has the effect of the change, which is not proved", text)
	}
}

func TestSignedChangeIsNotSuccess(t *testing.T) {
	var log bytes.Buffer
	env := &cli.Env{Terminal: &terminal.Terminal{Notices: terminal.Notices{Err: &log}}}
	m := amendment{change: "bob is removed", effect: "signatures of bob are rejected from now on"}
	showSigned(env, client.Amended{Roster: &identity.Roster{Version: 7}, Signed: true}, m)
	if text := log.String(); text != "signed version 7 of the roster: bob is removed\n" {
		t.Errorf("%q", text)
	}
}

func TestUnchangedRosterIsNotSigned(t *testing.T) {
	var log bytes.Buffer
	env := &cli.Env{Terminal: &terminal.Terminal{Notices: terminal.Notices{Err: &log}}}
	showSigned(env, client.Amended{Roster: &identity.Roster{Version: 7}}, amendment{change: "project shop"})
	if text := log.String(); text != "unchanged: version 7 of the roster already contains this: project shop\n" {
		t.Errorf("%q", text)
	}
}

func TestFirstRosterSentenceIsComplete(t *testing.T) {
	var log bytes.Buffer
	env := &cli.Env{Terminal: &terminal.Terminal{Notices: terminal.Notices{Err: &log}}}
	roster := &identity.Roster{Version: 2, Datacenters: []identity.Datacenter{{Datacenter: writ.Datacenter{Name: "dc1"}}}}
	if err := awaitAdoption(t.Context(), env, nil, client.Amended{Roster: roster, Signed: true}, adoptFlags{}, amendment{}, "dc1"); err != nil {
		t.Fatal(err)
	}
	if text := log.String(); !strings.Contains(text, "version 2 of the roster is in force: no datacenter has an earlier version") {
		t.Errorf("%q", text)
	}
}

func TestPendingAdoptionIsAnInterrupt(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	err := error(&client.AdoptionPending{Missing: []string{"east"}, Err: ctx.Err()})
	if !cli.IsInterrupt(ctx, err) || !errors.Is(err, context.Canceled) {
		t.Errorf("%v is not an interrupt", err)
	}
}

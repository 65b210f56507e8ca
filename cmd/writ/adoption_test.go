package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/terminal"
	"writ/identity"
)

func TestUnprovedChangeNamesItsRisk(t *testing.T) {
	m := amendment{change: "bob is removed", effect: "nothing that bob signs is accepted any more", before: "still accepts what bob signs"}
	text := m.unproved(&identity.Roster{Version: 7}, []string{"east: version 6"})
	for _, want := range []string{"version 7 of the roster is signed (bob is removed)", "not proved to be in force in: east: version 6",
		"until a datacenter has it, it still accepts what bob signs", "writ roster show"} {
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
	a := &app{Terminal: &terminal.Terminal{Err: &log}}
	m := amendment{change: "bob is removed", effect: "nothing that bob signs is accepted any more"}
	a.showSigned(true, &identity.Roster{Version: 7}, m)
	if text := log.String(); text != "signed version 7 of the roster: bob is removed\n" {
		t.Errorf("%q", text)
	}
	log.Reset()
	a.showSigned(false, &identity.Roster{Version: 7}, m)
	if text := log.String(); text != "no new version was signed, because version 7 of the roster has that already: bob is removed\n" {
		t.Errorf("%q", text)
	}
}

func TestPendingAdoptionIsAnInterrupt(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	err := error(&client.AdoptionPending{Missing: []string{"east"}, Err: ctx.Err()})
	if !isInterrupt(ctx, err) || !errors.Is(err, context.Canceled) {
		t.Errorf("%v is no interrupt", err)
	}
}

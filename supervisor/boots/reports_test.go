package boots

import (
	"fmt"
	"testing"
	"time"

	"writ"
	"writ/identity"
	"writ/supervisor/link"
	"writ/supervisor/nodes"
)

func TestAddressesAreListedInTurns(t *testing.T) {
	t.Parallel()
	now := time.Now()
	r := New(Config{Roster: func() *identity.Roster { return nil }, Now: func() time.Time { return now }})
	report := link.BootReport{Machines: []link.BootMachine{{MAC: "52:54:00:00:01:00", Address: "quiet", AgeSeconds: 60}}}
	for i := range 3 * perAddress {
		report.Machines = append(report.Machines, link.BootMachine{MAC: fmt.Sprintf("52:54:00:00:00:%02x", i), Address: "busy"})
	}
	c := nodes.BootCredential{Token: "t1", Nonce: r.nonce, Count: 1}
	if err := r.apply(c, report, now.Add(time.Hour), now); err != nil {
		t.Fatal(err)
	}
	if list := r.ListBoots(link.Boots{Max: perAddress + 1}); list.Machines[perAddress].Address != "quiet" {
		t.Errorf("machine %d = %+v, want the machine of the quiet address", perAddress, list.Machines[perAddress])
	}
	if err := r.apply(c, report, now.Add(time.Hour), now); writ.CodeOf(err) != writ.CodeConflict {
		t.Errorf("a repeated report: %v, want %s", err, writ.CodeConflict)
	}
	r.EndToken("t1")
	if list := r.ListBoots(link.Boots{}); list.Total != 0 {
		t.Errorf("%d machines are listed after the token has ended", list.Total)
	}
}

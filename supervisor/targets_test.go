package supervisor_test

import (
	"testing"

	"writ"
	"writ/identity"
	"writ/supervisor/journal"
)

const cleaningScript = `
volume := import("volume")
for name in ["web-0", "data-0"] {
	volume.create(name, {size_gib: 1}).err
}
volume.delete("web-0").err
volume.delete("data-0").err
`

func TestARunDestroysOnlyWhatItsPayloadNames(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.realNode("n1")
		p := s.payload(cleaningScript)
		p.Targets = []string{"herodb/data-0", "volume/web-*"}
		accepted, err := s.Submit(t.Context(), s.signPayload(p))
		if err != nil {
			t.Fatal(err)
		}
		_, calls := s.wantState(accepted.ID, writ.RunSucceeded)
		for i, want := range []writ.Code{"", "", "", writ.CodeDestructiveDenied} {
			code := writ.Code("")
			if calls[i].Error != nil {
				code = calls[i].Error.Code
			}
			if code != want {
				t.Errorf("call %d, %s %s: %+v, want %q", i+1, calls[i].Operation, calls[i].Name, calls[i].Error, want)
			}
		}
		s.wantResources("volume data-0")
	})
}

// What an earlier version of writ accepted with `destructive: yes` goes on, and is the same run when it is handed in again.
func TestARunThatAnEarlierVersionAcceptedMayStillDestroy(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.realNode("n1")
		p := s.payload(cleaningScript)
		p.Format, p.RosterDigest, p.Targets, p.Destructive = identity.FormatV1, writ.Digest{}, nil, true
		signed := s.signPayload(p)
		if _, err := s.Submit(t.Context(), signed); writ.CodeOf(err) != writ.CodeDestructiveDenied {
			t.Fatalf("it is accepted anew: %v", err)
		}
		p.Nonce = identity.NewNonce() // what was refused stays refused
		signed = s.signPayload(p)
		text, _, err := identity.Split(signed)
		if err != nil {
			t.Fatal(err)
		}
		digest := writ.DigestOf(text)
		run := &journal.Run{
			Run: writ.Run{
				ID: writ.RunIDOf(digest), Datacenter: theDatacenter, Project: p.Project, ProjectName: p.ProjectName, Signer: p.Signer, Script: p.Script.Name,
				Payload: digest, State: writ.RunAccepted, Accepted: s.clock.now(), Deadline: s.clock.now().Add(p.Deadline),
			},
			DatacenterName: "home", Engine: p.Engine, Destructive: true, Allow: p.Allow, Signed: p.Created, Expires: p.Expires,
		}
		if err := s.journal.Write(t.Context(), func(tx *journal.Tx) error {
			_, err := tx.AddRun(run, 1, signed)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		s.halt()
		s.start()
		s.wantState(run.ID, writ.RunSucceeded)
		s.wantResources()
		if again, err := s.Submit(t.Context(), signed); err != nil || again.ID != run.ID {
			t.Errorf("again = %s, %v", again.ID, err)
		}
	})
}

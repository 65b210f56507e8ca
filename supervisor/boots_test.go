package supervisor_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/identity"
	"writ/internal/hidden"
	"writ/supervisor/link"
	"writ/supervisor/nodes"
)

// bootToken signs a token for a boot server as alice.
func (s *sim) bootToken(valid time.Duration) identity.Token {
	s.t.Helper()
	token, statement := s.grant(1, time.Minute)
	grant := identity.TokenGrant{ID: token.ID, Key: token.Key(), Role: identity.TokenRoleBoot, Expires: s.clock.now().Add(valid).UTC().Truncate(time.Second)}
	grant.Statement(statement)
	if _, err := s.Decide(s.t.Context(), s.sign(statement)); err != nil {
		s.t.Fatal(err)
	}
	return token
}

// bootReport is a report of a boot server before it is sent.
type bootReport struct {
	credential nodes.BootCredential
	text       []byte
}

// reportWith returns the next report to a datacenter, authenticated with token.
func (s *sim) reportWith(token identity.Token, dc writ.DatacenterID, report any) bootReport {
	s.t.Helper()
	text, err := json.Marshal(report)
	if err != nil {
		s.t.Fatal(err)
	}
	next, err := s.BootNext(s.t.Context(), token.ID)
	if err != nil {
		s.t.Fatal(err)
	}
	c := nodes.BootCredential{Token: token.ID, Nonce: next.Nonce, Count: next.Count, List: writ.DigestOf(text)}
	c.Proof = token.Prove(identity.BootReportText(c.Token, dc, c.Nonce, c.Count, c.List))
	return bootReport{c, text}
}

// send sends a report, after a pause for the rate limit. read reports whether the supervisor read the list.
func (s *sim) send(r bootReport) (read bool, err error) {
	s.t.Helper()
	time.Sleep(time.Second) // simulated time
	err = s.ReportBoots(s.t.Context(), r.credential, func() ([]byte, error) { read = true; return r.text, nil })
	return read, err
}

// startingMachines returns all pages of the list of starting machines.
func (s *sim) startingMachines() (all link.BootList) {
	s.t.Helper()
	for {
		answer, err := s.Ask(s.t.Context(), link.VerbBoots, link.Boots{After: len(all.Machines)})
		list, ok := answer.(link.BootList)
		if err != nil || !ok {
			s.t.Fatalf("list of machines = %v, %v", answer, err)
		}
		if text, err := json.Marshal(list); err != nil || len(text) > link.MaxFrame*3/4 {
			s.t.Fatalf("one page has %d bytes, %v", len(text), err)
		}
		list.Machines = append(all.Machines, list.Machines...)
		if len(list.Machines) == len(all.Machines) || len(list.Machines) == list.Total {
			return list
		}
		all = list
	}
}

func reportOf(macs ...string) link.BootReport {
	r := link.BootReport{Name: "site", Machines: link.BootMachines{}}
	for _, mac := range macs {
		r.Machines = append(r.Machines, link.BootMachine{MAC: mac, Step: "script", Advice: "asked for its script", AgeSeconds: 40})
	}
	return r
}

// A report needs a token for boot servers of this datacenter, and each report counts once. Strangers, nodes, boot
// servers of other datacenters and replayed reports have no effect.
//
// Promise: Machines from an image: Operators see starting machines everywhere; rows come only from a boot server with
// an admin's token, and a replayed report has no effect.
// How: Each report has the whole list, proved over a nonce of the supervisor; no decision depends on it.
// Also: TestReportedMachinesAreBoundedAndCanBeShown, TestInventedMachinesHideNoOthers,
// TestRevokedBootServerAddsNoPendingReport, TestBootServerListsAreReadOneByOne,
// TestTheListOfABootServerIsBoundedAndReadLast, TestBootServerSendsItsTokenToTheSupervisorOnly,
// TestStartsPageShowsReportsOfBootServers, TestThePageOfStartsIsLive, TestMachinesThatStartAreListedToTheirEnd,
// TestOperatorsSeeFromAnywhereWhichMachinesStart.
func TestOnlyOwnBootServersReportMachines(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		token, other := s.bootToken(time.Hour), s.bootToken(2*time.Minute)
		first := s.reportWith(token, theDatacenter, reportOf("52:54:00:77:00:50"))
		if _, err := s.send(first); err != nil {
			t.Fatal(err)
		}
		began := s.startingMachines().Machines[0].Since
		if age := s.clock.now().Sub(began); age < 40*time.Second || age > 42*time.Second {
			t.Errorf("age of the step = %s, want 40 s", age)
		}
		stranger, err := identity.NewToken(s.Pin).For(theDatacenter, s.roster)
		if err != nil {
			t.Fatal(err)
		}
		evil := reportOf("52:54:00:77:00:99")
		altered := s.reportWith(token, theDatacenter, evil)
		altered.text = append(altered.text, ' ')
		last := s.reportWith(token, theDatacenter, evil)
		last.credential.Count = math.MaxInt64
		last.credential.Proof = token.Prove(identity.BootReportText(token.ID, theDatacenter, last.credential.Nonce, math.MaxInt64, last.credential.List))
		relabelled := s.reportWith(other, theDatacenter, evil)
		relabelled.credential.Token = token.ID
		for what, r := range map[string]struct {
			bootReport
			want writ.Code
			read bool
		}{
			"a stranger":                 {s.reportWith(stranger, theDatacenter, evil), writ.CodeTokenInvalid, false},
			"the token of a node":        {s.reportWith(s.token(), theDatacenter, evil), writ.CodeTokenInvalid, false},
			"a report to another one":    {s.reportWith(token, writ.DatacenterID(writ.NewUUID()), evil), writ.CodeTokenInvalid, false},
			"another list":               {altered, writ.CodeTokenInvalid, true},
			"the report again":           {first, writ.CodeConflict, false},
			"the last report of all":     {last, writ.CodeConflict, false},
			"the proof of another token": {relabelled, writ.CodeTokenInvalid, false},
			"too many machines":          {s.reportWith(token, theDatacenter, manyMachines(10_000)), writ.CodeTooLarge, true},
			"no list":                    {s.reportWith(token, theDatacenter, "x"), writ.CodeBadRequest, true},
		} {
			read, err := s.send(r.bootReport)
			if e, ok := errors.AsType[*writ.Error](err); !ok || e.Code != r.want || read != r.read {
				t.Errorf("%s: %v, list read: %v", what, err, read)
			}
		}
		if list := s.startingMachines(); len(list.Machines) != 1 || list.Machines[0].MAC != "52:54:00:77:00:50" || len(list.Servers) != 1 {
			t.Errorf("list = %+v", list)
		}
		again := reportOf("52:54:00:77:00:50")
		again.Machines[0].AgeSeconds = int64(s.clock.now().Sub(began)/time.Second) + 2 // the reported age is rounded
		if _, err := s.send(s.reportWith(token, theDatacenter, again)); err != nil || !s.startingMachines().Machines[0].Since.Equal(began) {
			t.Errorf("start of an unchanged step: %v, got %s, want %s", err, s.startingMachines().Machines[0].Since, began)
		}

		old := s.reportWith(token, theDatacenter, evil)
		s.again(func() {})
		if list := s.startingMachines(); list.Total != 0 {
			t.Errorf("list after a restart = %+v, want none", list)
		}
		if _, err := s.send(old); writ.CodeOf(err) != writ.CodeConflict {
			t.Errorf("report to the supervisor before the restart: %v, want CONFLICT", err)
		}
		if _, err := s.send(s.reportWith(token, theDatacenter, again)); err != nil || s.startingMachines().Total != 1 {
			t.Errorf("report after the restart: %v, %+v", err, s.startingMachines())
		}
		if _, err := s.send(s.reportWith(other, theDatacenter, evil)); err != nil || s.startingMachines().Total != 2 {
			t.Errorf("report of another boot server: %v, %+v", err, s.startingMachines())
		}
		s.decideFor("token/"+token.ID, identity.DecisionRevoke, "")
		if list := s.startingMachines(); list.Total != 1 || list.Machines[0].MAC != "52:54:00:77:00:99" {
			t.Errorf("list after one token was revoked = %+v", list)
		}
		time.Sleep(3 * time.Minute)
		if list := s.startingMachines(); list.Total != 0 || len(list.Servers) != 0 {
			t.Errorf("list after all tokens have expired = %+v", list)
		}
		for _, ended := range []identity.Token{token, other} {
			if _, err := s.send(s.reportWith(ended, theDatacenter, evil)); writ.CodeOf(err) != writ.CodeTokenInvalid {
				t.Errorf("report with an ended token: %v, want TOKEN_INVALID", err)
			}
		}
	})
}

// If the token is revoked while the supervisor receives a list, the list is dropped: it would be shown until the token
// expires.
func TestRevokedBootServerAddsNoPendingReport(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		token := s.bootToken(time.Hour)
		r := s.reportWith(token, theDatacenter, reportOf("52:54:00:77:00:50"))
		err := s.ReportBoots(t.Context(), r.credential, func() ([]byte, error) {
			s.decideFor("token/"+token.ID, identity.DecisionRevoke, "")
			return r.text, nil
		})
		if list := s.startingMachines(); writ.CodeOf(err) != writ.CodeTokenInvalid || list.Total != 0 || len(list.Servers) != 0 {
			t.Errorf("%v, list = %+v", err, list)
		}
	})
}

// The supervisor reads one list per token at a time. A thief of a token could otherwise send many lists slowly, and
// each one needs memory until it is complete.
func TestBootServerListsAreReadOneByOne(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		token := s.bootToken(time.Hour)
		r := s.reportWith(token, theDatacenter, reportOf("52:54:00:77:00:50"))
		err := s.ReportBoots(t.Context(), r.credential, func() ([]byte, error) {
			if read, err := s.send(r); writ.CodeOf(err) != writ.CodeRateLimited || read {
				t.Errorf("second list: %v, read: %v; want RATE_LIMITED, unread", err, read)
			}
			return r.text, nil
		})
		if err != nil || s.startingMachines().Total != 1 {
			t.Errorf("%v, list = %+v", err, s.startingMachines())
		}
		if _, err := s.send(s.reportWith(token, theDatacenter, reportOf("52:54:00:77:00:51"))); err != nil {
			t.Error(err)
		}
	})
}

func TestBootTokenAdmitsNoNode(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		if w, err := s.machine("n9", "").claim(s.bootToken(time.Hour)); writ.CodeOf(err) != writ.CodeTokenInvalid {
			t.Errorf("claim with a boot token = %+v, %v, want TOKEN_INVALID", w, err)
		}
	})
}

func manyMachines(n int) link.BootReport {
	r := link.BootReport{}
	for i := range n {
		r.Machines = append(r.Machines, link.BootMachine{MAC: fmt.Sprintf("02:00:00:00:%02x:%02x", i>>8, i&255), Step: "script"})
	}
	return r
}

// If a list is too long for its limit, invented machines of one address do not hide the machines of other addresses.
func TestInventedMachinesHideNoOthers(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		r := manyMachines(4000)
		for i := range r.Machines {
			r.Machines[i].Address = "192.0.2.66"
		}
		r.Machines[3999].Address, r.Machines[3999].AgeSeconds = "192.0.2.1", 3600
		if _, err := s.send(s.reportWith(s.bootToken(time.Hour), theDatacenter, r)); err != nil {
			t.Fatal(err)
		}
		answer, err := s.Ask(t.Context(), link.VerbBoots, link.Boots{Max: 20})
		list, ok := answer.(link.BootList)
		if err != nil || !ok || len(list.Machines) != 20 || !slices.ContainsFunc(list.Machines, func(m link.BootMachine) bool { return m.MAC == r.Machines[3999].MAC }) {
			t.Errorf("the machine is missing in %+v, %v", list.Machines, err)
		}
	})
}

// The texts in reports are bounded and printable, and the longest list is split into pages that fit into a frame.
func TestReportedMachinesAreBoundedAndCanBeShown(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		token := s.bootToken(time.Hour)
		evil := "\x1b[2J\u202etext<" + strings.Repeat("<", 100)
		r := manyMachines(link.MaxBootMachines)
		for i := range r.Machines {
			m := &r.Machines[i]
			m.Advice, m.Serial, m.Asset, m.UUID, m.Address, m.Assigned, m.Assignment, m.Node = evil, evil, evil, evil, evil, evil, evil, "../n1"
			m.AgeSeconds, m.SilentSeconds, m.Starts = -1<<63, 1<<62, -1
		}
		r.Machines[0].MAC = "\x1b[2J"
		r.Machines[1].Step = "Über"
		r.Machines[2].MAC = r.Machines[3].MAC
		r.Machines[4].Step = "made-up"
		r.Name, r.Trouble = evil, evil
		if _, err := s.send(s.reportWith(token, theDatacenter, r)); err != nil {
			t.Fatal(err)
		}
		list := s.startingMachines()
		if list.Total != link.MaxBootMachines-3 || len(list.Machines) != list.Total || list.Steps["script"] != list.Total-1 || list.Steps[link.BootOther] != 1 {
			t.Errorf("%d machines reported, %d listed, %d counted as %v", len(r.Machines), len(list.Machines), list.Total, list.Steps)
		}
		for _, m := range append(list.Machines[:2:2], link.BootMachine{Advice: list.Servers[0].Name + list.Servers[0].Trouble}) {
			text := fmt.Sprint(m)
			if strings.ContainsFunc(text, hidden.IsControl) || strings.ContainsFunc(text, hidden.Is) || len(text) > 6000 || m.Node != "" {
				t.Errorf("machine of %d bytes: %.200q", len(text), text)
			}
		}
		for i := range 2 * link.MaxBootServers {
			one := manyMachines(1)
			one.Machines[0].MAC = fmt.Sprintf("02:00:00:01:00:%02x", i)
			if _, err := s.send(s.reportWith(s.bootToken(time.Hour), theDatacenter, one)); err != nil {
				t.Fatal(err)
			}
		}
		if list := s.startingMachines(); len(list.Servers) != link.MaxBootServers || list.Total != link.MaxBootServers {
			t.Errorf("%d boot servers with %d machines are listed", len(list.Servers), list.Total)
		}
		burst := 0
		for range 20 {
			r := s.reportWith(token, theDatacenter, manyMachines(1))
			if err := s.ReportBoots(t.Context(), r.credential, func() ([]byte, error) { return r.text, nil }); writ.CodeOf(err) == writ.CodeRateLimited {
				burst++
			}
		}
		if burst < 10 {
			t.Errorf("%d of 20 concurrent reports were refused, want at least 10", burst)
		}
	})
}

package bootd

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"writ"
	"writ/cmd/writ/internal/daemon"
	"writ/cmd/writ/internal/daemon/internal/test/daemontest"
	"writ/efi/bootserver"
	"writ/efi/progress"
	"writ/identity"
	"writ/identity/pki"
	"writ/identity/sshsig"
	"writ/internal/test/testenv"
	"writ/supervisor/link"
	"writ/supervisor/nodes"
)

// bootFixture is a node API that takes reports of a boot server.
type bootFixture struct {
	daemontest.NodeAPI
	told []link.BootReport
	next int64
}

func (s *bootFixture) BootNext(context.Context, string) (nodes.BootNext, error) {
	return nodes.BootNext{Nonce: []byte("nonce"), Count: s.next}, nil
}

func (s *bootFixture) ReportBoots(_ context.Context, c nodes.BootCredential, read func() ([]byte, error)) error {
	if c.Count != s.next {
		return writ.Errorf(writ.CodeConflict, "it is the report %d", c.Count)
	}
	var r link.BootReport
	text, err := read()
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	s.told = append(s.told, r)
	s.next++
	return err
}

// A boot server sends reports only to the supervisor that the roster of its token names, at the second address if the
// first one is another supervisor. After a restart of the supervisor it sends the whole list again.
func TestBootServerSendsItsTokenToTheSupervisorOnly(t *testing.T) {
	newKey := func() ed25519.PrivateKey {
		_, key, err := ed25519.GenerateKey(nil)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	root, own, others := newKey(), newKey(), newKey()
	rootKey, err := ssh.NewPublicKey(root.Public())
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().UTC().Truncate(time.Second)
	dc := writ.DatacenterID(writ.NewUUID())
	roster := &identity.Roster{
		Cluster: identity.ClusterOf(rootKey), Version: 1, Created: now, Expires: now.Add(identity.RosterValidity), Root: rootKey, Threshold: 1, Operators: []string{"alice"},
		Principals: []identity.Principal{{Name: "alice", Kind: identity.Person, State: identity.Active, Keys: []identity.PrincipalKey{{Key: rootKey, State: identity.Active}}}},
		Datacenters: []identity.Datacenter{
			{Datacenter: writ.Datacenter{ID: dc, Name: "dc1", Region: "eu"}, SupervisorKey: daemon.PublicKey(own), Enabled: true},
			{Datacenter: writ.Datacenter{ID: writ.DatacenterID(writ.NewUUID()), Name: "dc2", Region: "eu"}, SupervisorKey: daemon.PublicKey(others), Enabled: true},
		},
	}
	signed, err := identity.SignRoster(roster, sshsig.NewSigner(root))
	if err != nil {
		t.Fatal(err)
	}
	serve := func(key ed25519.PrivateKey, dc writ.DatacenterID) (*bootFixture, string) {
		s := &bootFixture{NodeAPI: daemontest.NodeAPI{Signed: [][]byte{signed}}, next: 1}
		issuer := &pki.Issuer{Key: key, Name: pki.Name{Cluster: roster.Cluster, Role: pki.Supervisor, Datacenter: dc}}
		server := httptest.NewUnstartedServer(nodes.Handler(s, s, slog.New(slog.DiscardHandler)))
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		server.Listener = tls.NewListener(server.Listener, pki.Server(issuer.Certificate, daemontest.AcceptAll))
		server.Start()
		t.Cleanup(server.Close)
		return s, strings.Replace(server.URL, "http:", "https:", 1)
	}
	other, otherURL := serve(others, roster.Datacenters[1].ID)
	mine, url := serve(own, dc)
	token, err := identity.NewToken(roster.Cluster).For(dc, roster)
	if err != nil {
		t.Fatal(err)
	}
	b, err := NewReports(token, []string{otherURL, url}, new(testenv.Log).Logger())
	if err != nil {
		t.Fatal(err)
	}
	list := bootserver.List{Image: "0a", Machines: []bootserver.Row{{Machine: bootserver.Machine{MAC: "52:54:00:77:00:50", Step: "script", Serial: "S1"}, AgeSeconds: 40, Advice: "see its screen"}}}
	if err := b.report(t.Context(), list); writ.CodeOf(err) != writ.CodeUnreachable || len(other.told) != 0 {
		t.Errorf("report to another supervisor: %v, reports = %v", err, other.told)
	}
	for range 2 {
		if err := b.report(t.Context(), list); err != nil {
			t.Fatal(err)
		}
	}
	mine.next = 100 // as after another start
	if err := b.report(t.Context(), list); err != nil || len(mine.told) != 3 {
		t.Fatalf("report after a restart: %v, received %d reports, want 3", err, len(mine.told))
	}
	if m := mine.told[2].Machines; len(m) != 1 || m[0].MAC != "52:54:00:77:00:50" || m[0].Serial != "S1" || m[0].AgeSeconds != 40 || m[0].Advice != "see its screen" {
		t.Errorf("machines in the report = %+v", m)
	}
	if len(other.told) != 0 {
		t.Errorf("another supervisor received %+v", other.told)
	}
	for _, client := range b.apis {
		client.HTTP.CloseIdleConnections()
	}
	if _, err := NewReports(identity.NewToken(roster.Cluster), []string{url}, slog.Default()); writ.CodeOf(err) != writ.CodeTokenInvalid {
		t.Errorf("with the token of a supervisor: %v", err)
	}
}

// A report has as many machines as a supervisor accepts: those with the newest steps.
func TestAReportOfABootServerFits(t *testing.T) {
	long := progress.Text(strings.Repeat("\"", 1000), progress.MaxText)
	var list bootserver.List
	for i := range 10_000 {
		m := bootserver.Machine{MAC: fmt.Sprintf("02:00:00:00:%02x:%02x", i>>8, i&255), Step: "script", Text: long, Serial: long[:64], UUID: long[:64], Asset: long[:64], Address: long[:64]}
		list.Machines = append(list.Machines, bootserver.Row{Machine: m, Advice: strings.Repeat("\"", 5000), Assigned: strings.Repeat("\"", 5000)})
	}
	text, err := encodeBootList("site", list)
	if err != nil || len(text) > nodes.MaxBootList {
		t.Fatalf("%d bytes, %v", len(text), err)
	}
	var r link.BootReport
	if err := json.Unmarshal(text, &r); err != nil || len(r.Machines) < 1000 || r.Machines[0].MAC != list.Machines[0].MAC {
		t.Errorf("%d machines, %v", len(r.Machines), err)
	}
}

// Steps that boot servers and machines report are counted apart.
func TestStepsOfMachinesAreCountedApart(t *testing.T) {
	for _, step := range []string{
		bootserver.StepScript, bootserver.StepLoading, bootserver.StepSent, progress.StageStart, progress.StageData, progress.StageConfig, progress.StageNetwork, progress.StageClock,
		progress.StageService, progress.StageRunner, progress.StageWaits, progress.StageApprove, progress.StageJoined, progress.StageOff,
	} {
		if !strings.Contains(" "+strings.Join(link.BootSteps, " ")+" ", " "+step+" ") {
			t.Errorf("%s is not counted apart", step)
		}
	}
}

package supervisor_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"writ"
	"writ/identity"
	"writ/identity/envelope"
	"writ/identity/sshsig"
	"writ/runner/queue"
	"writ/supervisor/journal"
	"writ/supervisor/link"
	"writ/supervisor/nodes"
)

// pipes is a listener whose connections are pipes, which work in virtual time.
type pipes struct {
	dialed chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{dialed: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.dialed:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.dialed <- there:
		return here, nil
	case <-p.closed:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// lastEvents is the event store of a coordinator. It stores only the number of the last event.
type lastEvents struct{ last atomic.Int64 }

func (l *lastEvents) LastEvent(context.Context, writ.DatacenterID, string) (int64, time.Time, error) {
	return l.last.Load(), time.Time{}, nil
}

func (l *lastEvents) StoreEvents(_ context.Context, _ writ.DatacenterID, events []writ.Event) error {
	l.last.Store(events[len(events)-1].Seq)
	return nil
}

// coordinator runs a coordinator until the test ends. It returns a function that waits for the link of the supervisor.
func (s *sim) coordinator() func() *link.Session {
	wire, sessions := newPipes(), make(chan *link.Session, 1)
	l := &link.Listener{
		Authenticate: func(context.Context, link.Hello, []byte) error { return nil },
		Welcome:      func(context.Context, link.Hello) (link.Welcome, error) { return link.Welcome{}, nil },
		Connected:    func(_ context.Context, session *link.Session) { sessions <- session },
		Events:       new(lastEvents), Log: slog.New(slog.DiscardHandler),
	}
	server := &http.Server{Handler: l, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(wire) })
	transport := &http.Transport{DialContext: wire.dial}
	s.coordinators, s.dialWith = []string{"http://coord.test"}, &http.Client{Transport: transport}
	s.t.Cleanup(func() {
		s.halt()
		transport.CloseIdleConnections()
		_ = server.Close()
		l.Close()
		serving.Wait()
	})
	return func() *link.Session { return <-sessions }
}

var logged = regexp.MustCompile(`msg=("(?:[^"\\]|\\.)*"|\S+)`)

// refusals counts the lines of each message and code. bad holds lines with an error but without a known code.
func (s *sim) refusals() (lines map[string]int, bad []string) {
	lines = make(map[string]int)
	code := regexp.MustCompile(` code=(\S+)`)
	for line := range strings.Lines(s.logs.String()) {
		message := strings.Trim(logged.FindStringSubmatch(line)[1], `"`)
		found := code.FindStringSubmatch(line)
		switch {
		case found == nil && strings.Contains(line, " err="):
			bad = append(bad, line)
		case found == nil:
		case string(writ.Code(found[1]).Info().Code) != found[1]:
			bad = append(bad, line)
		default:
			if verb := regexp.MustCompile(` verb=(\S+)`).FindStringSubmatch(line); verb != nil {
				message += " " + verb[1]
			}
			lines[message+": "+found[1]]++
		}
	}
	return lines, bad
}

// Coordinators, nodes and strangers cause many refusals in one second. Each kind of refusal is one line, with a code
// that `writ explain` knows.
//
// Promise: Nodes and Redis: Each refusal to a coordinator, node or joiner is logged with its code, at most once in
// ten seconds for each request and code.
// How: The link logs unanswered requests, the node API logs node requests; a refusal with a proof names its signer.
// Also: TestManyChangedRecordsLogFewLines, TestFailingWatchLogsFewLines,
// TestFailingRequestsLogFewLines, TestRefusalsOfEachCodeAreOneLine.
func TestEachRefusalIsLoggedOnceWithItsCode(t *testing.T) {
	const often = 50
	synctest.Test(t, func(t *testing.T) {
		s, keeper := newCluster(t), &memoryAccounts{}
		s.place, s.accounts, s.level = filepath.Join(t.TempDir(), "journal.db"), keeper, slog.LevelInfo
		session := s.coordinator()
		s.start()
		coordinator := session()
		n, other := s.join("n1"), s.join("n2")
		time.Sleep(2 * time.Second)
		want := make(map[string]int)

		ask := func(verb link.Verb, params any, code writ.Code) {
			t.Helper()
			for range often {
				if err := coordinator.Request(t.Context(), verb, params, nil); writ.CodeOf(err) != code {
					t.Fatalf("%s: %v, want %s", verb, err, code)
				}
			}
		}
		refused := func(verb link.Verb, params any, code writ.Code) {
			t.Helper()
			ask(verb, params, code)
			want[fmt.Sprintf("request refused %s: %s", verb, code)] = 1
		}
		good := s.sign(s.statement("node/"+string(n.id), "cordon"))
		text, armored, _ := sshsig.Split(good)
		stranger, elsewhere, nameless := s.payload("x := 1\n"), s.payload("x := 1\n"), s.payload("x := 1\n")
		elsewhere.Datacenter = "01920000-0000-7000-8000-0000000000ff"
		nameless.ProjectName = "elsewhere"
		refused(link.VerbStatement, link.Statement{Signed: sshsig.Join(append(bytes.Clone(text), ' '), armored)}, writ.CodeSignatureInvalid)
		refused(link.VerbSubmit, link.Submit{Signed: s.signPayloadBy(sshsig.NewSigner(newKey(t)), stranger)}, writ.CodeSignerUnknown)
		refused(link.VerbSubmit, link.Submit{Signed: s.signPayload(elsewhere)}, writ.CodeWrongDatacenter)
		refused(link.VerbSubmit, link.Submit{Signed: []byte("nothing")}, writ.CodeSignatureMalformed)
		refused(link.VerbLogs, link.Logs{Run: "0"}, writ.CodeNotFound)
		forged, err := s.roster.Successor(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		signed, err := identity.SignRoster(forged, sshsig.NewSigner(newKey(t)))
		if err != nil {
			t.Fatal(err)
		}
		refused(link.VerbRoster, link.Rosters{Signed: [][]byte{signed}}, writ.CodeRosterInvalid)
		ask(link.VerbSubmit, link.Submit{Signed: s.signPayload(nameless)}, writ.CodeProjectUnknown) // has a known author
		want["refused: PROJECT_UNKNOWN"] = 1
		for range 5 * often {
			_ = coordinator.Request(t.Context(), link.VerbStatement, link.Statement{Signed: []byte("nothing")}, nil)
		}
		want["request refused statement: SIGNATURE_MALFORMED"], want["request refused statement: RATE_LIMITED"] = 1, 1

		send := func(message string, code writ.Code, signed []byte, err error) {
			t.Helper()
			for range often {
				if err == nil {
					err = s.queue.Send(t.Context(), queue.Stream{Node: n.id, Direction: queue.Out}, signed)
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			want[message+": "+string(code)] = 1
		}
		sign := func(message string, code writ.Code, kind envelope.Kind, record any) {
			t.Helper()
			signed, err := envelope.Sign(kind, n.key, record)
			send(message, code, signed, err)
		}
		send("open message of a node; it is discarded", writ.CodeSignatureMalformed, []byte("nothing"), nil)
		for range 2 { // a node may send one full burst after an outage of the queue
			sign("node sends too many beats; some are dropped", writ.CodeRateLimited, envelope.Beat, writ.Beat{Node: n.id, Epoch: s.Epoch()})
		}
		sign("node sent the beat of another node", writ.CodeBadRequest, envelope.Beat, writ.Beat{Node: other.id})
		sign("node sent the report of another node", writ.CodeBadRequest, envelope.Report, writ.Report{Node: other.id})
		sign("node reported the machine of another node", writ.CodeBadRequest, envelope.Host, nodes.HostReport{Node: other.id})
		sign("node reports its machine too often; some reports are dropped", writ.CodeRateLimited, envelope.Host, nodes.HostReport{Node: n.id})
		sign("node reported the load of another node", writ.CodeBadRequest, envelope.Load, nodes.LoadReport{Node: other.id})
		sign("node reports its load too often; some reports are dropped", writ.CodeRateLimited, envelope.Load, nodes.LoadReport{Node: n.id})
		sign("result without a sent job; it is ignored", writ.CodeNotFound, envelope.Result,
			writ.Result{JobKey: writ.JobKey{Run: s.submit(waitsForOne), Seq: 1, Attempt: 9}, Node: n.id})
		for range often {
			keeper.addFinding(queue.Finding{Node: n.id, Offence: queue.Oversize, Count: 1, Bytes: 1 << 30})
			keeper.addFinding(queue.Finding{Node: n.id, Offence: queue.WrongType, What: "a hash"})
			keeper.addFinding(queue.Finding{Node: n.id, Offence: queue.TooFast})
		}
		want["messages of a node are too large; they are discarded unread: TOO_LARGE"] = 1
		want["queue key of a node had a wrong type; it was replaced: QUEUE_BUDGET"] = 1
		want["node sends too much; its messages wait: RATE_LIMITED"] = 1

		api := nodes.Handler(s.Supervisor, s.Supervisor, s.Log)
		for range often {
			for _, path := range []string{"/v1/accounts/" + string(n.id), "/v1/rosters?after=x"} {
				api.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil))
			}
		}
		want["node refused: BAD_REQUEST"] = 2 // one per route
		time.Sleep(5 * time.Second)

		lines, bad := s.refusals()
		if len(bad) > 0 {
			t.Errorf("lines without a known code:\n%s", strings.Join(bad, ""))
		}
		for what, n := range want {
			if lines[what] != n {
				t.Errorf("got %d lines, want %d, of %q", lines[what], n, what)
			}
			delete(lines, what)
		}
		if len(lines) > 0 {
			t.Errorf("unexpected lines: %v", lines)
		}
		if t.Failed() {
			t.Log(s.logs.String())
		}
	})
}

// A coordinator that repeatedly sends refused or unsigned texts is limited. The supervisor does not check the script
// each time.
func TestRepeatedRefusedTextsAreRateLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCluster(t)
		s.place = filepath.Join(t.TempDir(), "journal.db")
		session := s.coordinator()
		s.start()
		coordinator := session()
		const often = 500
		again := func(what string, signed []byte, code writ.Code) {
			t.Helper()
			began := time.Now()
			for range often {
				if err := coordinator.Request(t.Context(), link.VerbSubmit, link.Submit{Signed: signed}, nil); writ.CodeOf(err) != code {
					t.Fatalf("%s: %v, want %s", what, err, code)
				}
			}
			if took := time.Since(began); took < 2*time.Second {
				t.Errorf("%s: %d answers within %s, want at least 2 s", what, often, took)
			}
			time.Sleep(10 * time.Second)
		}
		p := s.payload("x := 1\n")
		p.Script.Text = []byte("x := \n")
		broken := s.signPayload(p)
		again("a broken script", broken, writ.CodeScriptInvalid)
		done, err := s.Checking(t.Context(), p.Project)
		if err != nil {
			t.Fatal(err)
		}
		again("a script of a project with a blocked check", broken, writ.CodeScriptInvalid)
		done()
		s.halt()
		s.start()
		coordinator = session()
		again("a script refused before a restart", broken, writ.CodeScriptInvalid)
		again("a script of an unknown signer", s.signPayloadBy(sshsig.NewSigner(newKey(t)), s.payload("x := 1\n")), writ.CodeSignerUnknown)
	})
}

// A node that reports as much data as fits into a message does not break the link to the coordinators: its events are
// shortened.
//
// Promise: Load and attackers: A node with maximal self-descriptions does not disconnect its datacenter from the
// coordinators.
// How: An event with node data has at most 256 KiB; larger ones are sent without drivers, disks, networks, orphans
// and drift, and the log names the node.
// Also: TestOversizedEventsAreShortened.
func TestNodeReportsFitIntoLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCluster(t)
		s.place = filepath.Join(t.TempDir(), "journal.db")
		session := s.coordinator()
		s.start()
		coordinator := session()
		n := s.join("n1")
		time.Sleep(2 * time.Second)
		long := strings.Repeat("<", 4<<10) // six times as long in JSON
		beat := writ.Beat{Node: n.id, Epoch: s.Epoch(), Incarnation: 1 << 30}
		report := writ.Report{Node: n.id, Epoch: s.Epoch(), Incarnation: 1 << 30}
		for range 256 {
			beat.Drivers = append(beat.Drivers, writ.NodeDriver{Module: "volume", Name: "x", Detail: long})
			report.Orphans = append(report.Orphans, writ.Orphan{Module: "volume", Kind: "volume", Name: long, Remedy: long})
		}
		for round := range 3 {
			beat.Sequence, report.Round = int64(round+1), int64(round+1)
			beat.Drivers[0].Name = fmt.Sprint(round) // a changed value causes an event
			for kind, record := range map[envelope.Kind]any{envelope.Beat: beat, envelope.Report: report} {
				signed, err := envelope.Sign(kind, n.key, record)
				if err != nil {
					t.Fatal(err)
				}
				if err := s.queue.Send(t.Context(), queue.Stream{Node: n.id, Direction: queue.Out}, signed); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(3 * time.Second)
		}
		s.decide(n.id, "cordon")
		if err := coordinator.Request(t.Context(), link.VerbQueues, link.Queues{}, nil); err != nil {
			t.Errorf("request over the link: %v", err)
		}
		if lines, _ := s.refusals(); lines["node report exceeds the size of an event; coordinators receive a shortened report: TOO_LARGE"] != 1 || s.logs.Lines("no link to the coordinator") > 0 {
			t.Errorf("unexpected log:\n%s", s.logs.String())
		}
		events, err := s.journal.Events(t.Context(), 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		last := events[len(events)-1].Node
		if last == nil || last.ID != n.id || last.Scheduling != writ.SchedulingCordoned || last.Drivers != nil || last.Orphans != nil {
			t.Errorf("node in the last event = %+v", last)
		}
		if known := s.Known(n.id); len(known.Drivers) == 0 {
			t.Error("the supervisor has lost the drivers of the node")
		}
	})
}

// A refused claim is logged as one line with its sender and its token.
func TestRefusedClaimLogsOneLine(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		token := s.token()
		n := &testNode{sim: s, name: "n1", key: newKey(t), pretend: func(joiner *identity.Joiner) { joiner.Name = "n2" }}
		_, err := n.claim(identity.Token{ID: token.ID})
		if writ.CodeOf(err) != writ.CodeTokenInvalid || !strings.Contains(err.Error(), "n2") || !strings.Contains(err.Error(), token.ID) {
			t.Errorf("error for the log = %v", err)
		}
		if s.logs.String() != "" {
			t.Errorf("the error was logged and returned: %s", s.logs.String())
		}
	})
}

// A stranger sends a token with NUL bytes. It gets a refusal, on PostgreSQL too, and the log reports no bug of the
// supervisor.
//
// Promise: Nodes and Redis: A text that a store cannot hold, for example with NUL, is refused as `BAD_REQUEST` and
// never logged as a defect.
// How: Stores mark errors that a text caused.
// Also: TestLedgerOnPostgreSQL.
func TestUnstorableTokenIsRefused(t *testing.T) {
	inSimOnPostgreSQL(t, func(t *testing.T, s *sim) {
		api := nodes.Handler(s.Supervisor, s.Supervisor, s.Log)
		for _, odd := range []string{"\x00", "a\x00b"} {
			hello := nodes.Hello{Token: odd, Name: "n1", Key: make([]byte, ed25519.PublicKeySize), Nonce: make([]byte, identity.NonceSize)}
			proof, err := s.Greet(t.Context(), hello)
			if err != nil {
				t.Fatal(err)
			}
			claim, err := json.Marshal(nodes.Claim{Hello: hello, Nonce: proof.Nonce, Signature: []byte("none")})
			if err != nil {
				t.Fatal(err)
			}
			answer := httptest.NewRecorder()
			api.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/v1/join/claim", bytes.NewReader(claim)))
			if answer.Code != http.StatusBadRequest {
				t.Fatalf("claim with the token %q: %d %s", odd, answer.Code, answer.Body)
			}
		}
		if s.logs.Lines("level=ERROR") > 0 {
			t.Errorf("unexpected errors:\n%s", s.logs.String())
		}
	})
}

// If each scan of the watch fails for a minute, the log gets a few lines.
func TestFailingWatchLogsFewLines(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.submit(waitsForOne)
		time.Sleep(time.Second)
		s.tamper(`ALTER TABLE loads RENAME TO other`)
		time.Sleep(time.Minute)
		const message = `msg="watch the datacenter; trying again" code=`
		if n := s.logs.Lines(message); n == 0 || n > 5 {
			t.Errorf("got %d lines within a minute, want 1 to 5:\n%s", n, s.logs.String())
		}
		s.tamper(`ALTER TABLE other RENAME TO loads`)
	})
}

// The first of many changed records is logged at once. The others are counted.
func TestManyChangedRecordsLogFewLines(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		var ids []writ.RunID
		for range 100 {
			ids = append(ids, s.submit(waitsForOne))
		}
		time.Sleep(time.Second) // until no step is in progress
		s.tamper(`UPDATE runs SET body = x'00'`)
		for _, id := range ids {
			_ = s.journal.Read(t.Context(), func(tx *journal.Tx) error {
				_, err := tx.Run(id)
				return err
			})
		}
		const changed = `level=ERROR msg="record of the journal changed by another program; it is not used" code=RECORD_FORGED`
		if n := s.logs.Lines(changed); n != 1 {
			t.Errorf("got %d lines at once, want 1:\n%s", n, s.logs.String())
		}
		time.Sleep(time.Minute)
		if n := s.logs.Lines(changed); n != 2 || s.logs.Lines("times=99") != 1 {
			t.Errorf("got %d lines after a minute, want 2 with a count:\n%s", n, s.logs.String())
		}
	})
}

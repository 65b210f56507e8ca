package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"go.uber.org/goleak"

	"writ"
	"writ/identity/expiring"
	"writ/internal/outbound"
	"writ/internal/test/testenv"
	"writ/ledger"
	"writ/ledger/sqlstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	hang   = 30 * time.Second // limits a wait
	vienna = writ.DatacenterID("0192f6c2-0000-7000-8000-00000000000a")
	graz   = writ.DatacenterID("0192f6c2-0000-7000-8000-00000000000b")
	secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	newer  = "whsec_xUZ2kcGh0RYkzmJrYcWzvuHbO1sYqf1TJUxHVqFxgO4="
)

var epoch = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// got is a received request.
type got struct {
	id   string
	text map[string]any
}

func (g got) data(name string) string {
	s, _ := g.text["data"].(map[string]any)[name].(string)
	return s
}

// receiver is a server for messages. It verifies each one with the library of Standard Webhooks.
type receiver struct {
	*httptest.Server
	answer func(n int, g got) int // to the n-th request, from 1
	all    chan got
	now    func() time.Time
}

func newReceiver(t *testing.T, answer func(n int, g got) int) *receiver {
	t.Helper()
	r := &receiver{answer: answer, all: make(chan got, 100), now: time.Now}
	verifier, err := standardwebhooks.NewWebhook(newer)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	n := 0
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return // the sender is gone
		}
		sent, _ := strconv.ParseInt(req.Header.Get("webhook-timestamp"), 10, 64)
		if early := r.now().Sub(time.Unix(sent, 0)).Abs(); early > time.Minute {
			t.Errorf("sent at %d, %s off", sent, early)
		}
		if err := verifier.VerifyIgnoringTimestamp(body, req.Header); err != nil || req.Method != http.MethodPost || req.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s with %v: %v", req.Method, req.Header, err)
		}
		if strings.Count(req.Header.Get("webhook-signature"), "v1,") != 2 {
			t.Errorf("signatures: %q; want one for each secret", req.Header.Get("webhook-signature"))
		}
		g := got{id: req.Header.Get("webhook-id")}
		if err := json.Unmarshal(body, &g.text); err != nil {
			t.Errorf("%s: %v", body, err)
		}
		mu.Lock()
		n++
		status := r.answer(n, g)
		mu.Unlock()
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
		r.all <- g
	}))
	t.Cleanup(r.Close)
	return r
}

// next returns the next message, and fails if it has another type.
func (r *receiver) next(t *testing.T, want Type) got {
	t.Helper()
	select {
	case g := <-r.all:
		if g.text["type"] != string(want) {
			t.Fatalf("got %v; want %s", g.text, want)
		}
		return g
	case <-time.After(hang):
		t.Fatalf("no request, want %s", want)
	}
	return got{}
}

func taken(int, got) int { return http.StatusNoContent }

// fixture is a ledger with a sender.
type fixture struct {
	*sqlstore.Store
	t     *testing.T
	seq   int64
	news  chan struct{} // filled when an event is stored
	mu    sync.Mutex
	tried map[string]int
	ends  []expiring.Item
	now   time.Time
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	store, err := sqlstore.Open(t.Context(), ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return &fixture{Store: store, t: t, news: make(chan struct{}, 1), tried: map[string]int{}, now: time.Now()}
}

// happens stores events.
func (f *fixture) happens(events ...writ.Event) {
	f.t.Helper()
	for i := range events {
		f.seq++
		events[i].Journal, events[i].Seq, events[i].Time = "j", f.seq, epoch.Add(time.Duration(f.seq)*time.Second)
	}
	if err := f.StoreEvents(f.t.Context(), vienna, events); err != nil {
		f.t.Fatal(err)
	}
	select {
	case f.news <- struct{}{}:
	default:
	}
}

// outcome waits until `want` requests had an outcome.
func (f *fixture) outcome(name string, want int) {
	f.t.Helper()
	for late := time.Now().Add(hang); ; time.Sleep(time.Millisecond) {
		f.mu.Lock()
		have := f.tried[name]
		f.mu.Unlock()
		if have == want {
			return
		}
		if have > want || time.Now().After(late) {
			f.t.Fatalf("%d requests were %s; want %d", have, name, want)
		}
	}
}

// looked waits until the sender has received the news.
func (f *fixture) looked() {
	f.t.Helper()
	for late := time.Now().Add(hang); len(f.news) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			f.t.Fatal("the sender does not read the news")
		}
	}
}

// start sends messages to a receiver until stop is called.
func (f *fixture) start(to *receiver, change ...func(e *Endpoint)) (stop func()) {
	f.t.Helper()
	dir := f.t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ops.secret"), []byte(secret+"\n"+newer+"\n"), 0o600); err != nil {
		f.t.Fatal(err)
	}
	e := Endpoint{Name: "ops", URL: to.URL + "/path", SecretFile: "ops.secret"}
	for _, c := range change {
		c(&e)
	}
	if err := e.readSecrets(dir); err != nil {
		f.t.Fatal(err)
	}
	s := &Sender{
		Endpoints: []Endpoint{e}, Ledger: f, Log: slog.New(slog.DiscardHandler), PublicURL: "https://writ.example.org", Version: "v1", Now: func() time.Time { return f.now },
		News:           func() <-chan struct{} { return f.news },
		Ends:           func() []expiring.Item { return f.ends },
		DatacenterName: func(writ.DatacenterID) string { return "vienna" },
		ProjectName:    func(id writ.ProjectID) string { return map[bool]string{true: "blog", false: "shop"}[id == "p3"] },
		Tried: func(_, outcome string) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.tried[outcome]++
		},
		pauseForTest: func(int) time.Duration { return time.Millisecond },
	}
	ctx, cancel := context.WithCancel(f.t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Run(ctx); err != nil {
			f.t.Error(err)
		}
	})
	stop = func() { cancel(); running.Wait() }
	f.t.Cleanup(stop)
	f.t.Cleanup(to.CloseClientConnections)
	return stop
}

// begun waits until the endpoint has a position: later events are reported.
func (f *fixture) begun() {
	f.t.Helper()
	for late := time.Now().Add(hang); ; time.Sleep(time.Millisecond) {
		if at, err := f.WebhookAt(f.t.Context(), "ops"); err != nil || at != nil {
			return
		}
		if time.Now().After(late) {
			f.t.Fatal("the endpoint has no place")
		}
	}
}

func run(n int, state writ.RunState, code writ.Code) writ.Event {
	payload := writ.DigestOf([]byte{byte(n)})
	r := &writ.Run{ID: writ.RunIDOf(payload), Payload: payload, Datacenter: vienna, Project: "p1", ProjectName: "shop", Signer: "alice", Script: "web.tengo", State: state}
	if state.Ended() {
		r.Ended = epoch.Add(time.Duration(n) * time.Second)
	}
	if code != "" {
		r.Failure = &writ.Failure{Error: writ.Error{Code: code, Message: "it is not there"}, Position: "web.tengo:4:2"}
	}
	return writ.Event{Run: r}
}

func node(liveness writ.Liveness, beat time.Time) writ.Event {
	return writ.Event{Node: &writ.Node{ID: "n1", Name: "node-1", Datacenter: vienna, Admission: writ.AdmissionApproved, Liveness: liveness, LastBeat: beat}}
}

// Events without a message advance the position: they are not read again, and no event is missed once the ledger has
// pruned them.
func TestEndpointSkipsEventsWithoutMessage(t *testing.T) {
	f := newFixture(t)
	r := newReceiver(t, taken)
	stop := f.start(r)
	f.begun()
	of := run(1, writ.RunRunning, "")
	call := func(seq int) writ.Event {
		return writ.Event{Call: &writ.Call{Run: of.Run.ID, Seq: seq, Operation: "volume.create", State: writ.CallRunning}}
	}
	f.happens(of, node(writ.LivenessLost, epoch), call(1), call(2), call(3))
	r.next(t, NodeLost)
	_, newest, err := f.EventRange(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // two reads after that; the second one starts when the first has ended
		f.happens(call(4))
		f.looked()
	}
	stop()
	if at, err := f.WebhookAt(t.Context(), "ops"); err != nil || at.Event < newest {
		t.Errorf("it is at %v of %d, %v", at, newest, err)
	}
}

func TestReturnedNodeIsReportedAfterRestart(t *testing.T) {
	f := newFixture(t)
	var takes atomic.Bool
	r := newReceiver(t, func(_ int, g got) int {
		if g.text["type"] == string(NodeBack) && !takes.Load() {
			return http.StatusServiceUnavailable
		}
		return http.StatusNoContent
	})
	stop := f.start(r)
	f.begun()
	f.happens(node(writ.LivenessLost, epoch), node(writ.LivenessReady, epoch.Add(time.Hour)))
	r.next(t, NodeLost)
	first := r.next(t, NodeBack)
	stop()
	for len(r.all) > 0 {
		<-r.all
	}
	takes.Store(true)
	f.start(r)
	if again := r.next(t, NodeBack); again.id != first.id {
		t.Errorf("%v is not %v", again, first)
	}
}

// An event of a datacenter about a node with the id of another datacenter's node concerns a different node. It does not
// report the other node as back.
func TestDatacenterReportsNoForeignNode(t *testing.T) {
	f := newFixture(t)
	r := newReceiver(t, taken)
	f.start(r)
	f.begun()
	f.happens(node(writ.LivenessLost, epoch))
	r.next(t, NodeLost)
	other := node(writ.LivenessReady, epoch.Add(time.Hour))
	other.Journal, other.Seq = "g", 1
	if err := f.StoreEvents(t.Context(), graz, []writ.Event{other}); err != nil {
		t.Fatal(err)
	}
	f.happens(node(writ.LivenessReady, epoch.Add(2*time.Hour)))
	if back := r.next(t, NodeBack); back.data("last_beat") != epoch.Add(2*time.Hour).Format(time.RFC3339) {
		t.Errorf("%v", back)
	}
}

func TestEventsAreReportedInOrderAndOnce(t *testing.T) {
	f := newFixture(t)
	f.happens(run(1, writ.RunFailed, writ.CodeNotFound)) // before the endpoint was configured
	r := newReceiver(t, func(n int, _ got) int { return map[int]int{1: 503, 2: 429}[n] + map[bool]int{true: 200}[n > 2] })
	stop := f.start(r)
	f.begun()
	f.happens(run(2, writ.RunAccepted, ""), run(2, writ.RunRunning, ""), run(2, writ.RunFailed, writ.CodeNotFound))
	first := r.next(t, RunEnded)
	again, last := r.next(t, RunEnded), r.next(t, RunEnded)
	if first.id == "" || again.id != first.id || last.id != first.id {
		t.Errorf("the message has the ids %s, %s and %s; want one", first.id, again.id, last.id)
	}
	for name, want := range map[string]string{
		"state": "failed", "datacenter": "vienna", "project": "shop", "script": "web.tengo", "signer": "alice", "code": "NOT_FOUND", "error": "it is not there",
		"position": "web.tengo:4:2", "url": "https://writ.example.org/runs/" + first.data("run"), "ended": "2026-11-01T12:00:02Z",
	} {
		if first.data(name) != want {
			t.Errorf("%s: %q; want %q", name, first.data(name), want)
		}
	}

	f.happens(node(writ.LivenessReady, epoch), node(writ.LivenessSilent, epoch), node(writ.LivenessLost, epoch), node(writ.LivenessLost, epoch))
	lost := r.next(t, NodeLost)
	if lost.data("name") != "node-1" || lost.data("url") != "https://writ.example.org/nodes/"+string(vienna)+"/n1" {
		t.Errorf("%v", lost)
	}
	f.outcome(Taken, 2)
	stop() // another process continues, and must remember the lost node
	f.start(r)
	f.happens(node(writ.LivenessReady, epoch.Add(time.Hour)), run(2, writ.RunRunning, ""))
	r.next(t, NodeBack)
	f.happens(run(3, writ.RunSucceeded, ""))
	if next := r.next(t, RunEnded); next.data("state") != "succeeded" || next.id == first.id {
		t.Errorf("%v", next)
	}
	f.outcome(Taken, 4)
	f.outcome(Again, 2)
	f.outcome(GivenUp, 0)
}

func TestMessageWithLostAnswerIsResent(t *testing.T) {
	f := newFixture(t)
	r := newReceiver(t, taken)
	began := make(chan struct{}, 2)
	r.answer = func(n int, _ got) int {
		began <- struct{}{}
		if n == 1 {
			r.CloseClientConnections()
		}
		return http.StatusOK
	}
	f.start(r)
	f.begun()
	f.happens(run(1, writ.RunCancelled, ""))
	if one, two := r.next(t, RunEnded), r.next(t, RunEnded); one.id != two.id {
		t.Errorf("%s and %s", one.id, two.id)
	}
}

func TestReceiverGetsTheNextMessage(t *testing.T) {
	for _, status := range []int{http.StatusBadRequest, http.StatusTemporaryRedirect} {
		f := newFixture(t)
		r := newReceiver(t, func(_ int, g got) int {
			if g.data("state") == "failed" {
				return status
			}
			return http.StatusOK
		})
		stop := f.start(r)
		f.begun()
		f.happens(run(1, writ.RunFailed, writ.CodeNotFound), run(2, writ.RunSucceeded, ""))
		for range tries {
			if g := r.next(t, RunEnded); g.data("state") != "failed" {
				t.Fatalf("%d: %v", status, g)
			}
		}
		if g := r.next(t, RunEnded); g.data("state") != "succeeded" {
			t.Errorf("%d: %v", status, g)
		}
		f.outcome(Taken, 1)
		f.outcome(GivenUp, 1)
		f.outcome(Again, tries-1)
		stop()
	}
}

func TestGoneReceiverGetsNoMessageUntilRestart(t *testing.T) {
	f := newFixture(t)
	r := newReceiver(t, func(n int, _ got) int { return map[bool]int{true: http.StatusGone, false: http.StatusOK}[n == 1] })
	stop := f.start(r)
	f.begun()
	f.happens(run(1, writ.RunSucceeded, ""), run(2, writ.RunSucceeded, ""))
	first := r.next(t, RunEnded)
	f.outcome(GivenUp, 1)
	stop()
	f.outcome(Taken, 0)
	f.start(r)
	if again := r.next(t, RunEnded); again.id != first.id {
		t.Errorf("%v", again)
	}
}

func TestExpiryIsReportedAtEachWarning(t *testing.T) {
	f := newFixture(t)
	const day = 24 * time.Hour
	f.ends = []expiring.Item{
		{What: "version 3 of the roster", At: f.now.Add(5 * day), Renew: "writ roster renew"},
		{What: "the role deployer of alice on shop", At: f.now.Add(-2 * day), Renew: "writ user add"}, // as intended
		{What: "the role viewer of bob on shop", At: f.now.Add(60 * day), Renew: "writ user add"},
	}
	r := newReceiver(t, taken)
	stop := f.start(r)
	first := r.next(t, Expires)
	if first.data("what") != "version 3 of the roster" || first.data("renew") != "writ roster renew" {
		t.Errorf("%v", first)
	}
	f.happens(run(1, writ.RunSucceeded, "")) // triggers another read
	r.next(t, RunEnded)
	f.outcome(Taken, 2)
	stop()
	r.now = func() time.Time { return f.now }
	f.now = f.now.Add(4*day + time.Hour)
	f.start(r)
	if next := r.next(t, Expires); next.id == first.id || next.data("what") != first.data("what") {
		t.Errorf("%v", next)
	}
}

func TestExpiryIsEqualFromEachCoordinator(t *testing.T) {
	const day = 24 * time.Hour
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for left, stage := range map[time.Duration]time.Duration{
		20 * day: 30 * day, 5 * day: 7 * day, 3 * time.Hour: day, -time.Hour: 0,
	} {
		ends := []expiring.Item{{What: "version 3 of the roster", At: now.Add(left), Renew: "writ roster renew"}}
		one, other := expiries(ends, now), expiries(ends, now.Add(10*time.Minute))
		if len(one) != 1 || !reflect.DeepEqual(one, other) {
			t.Fatalf("%v, 10 minutes later %v", one, other)
		}
		if want := ends[0].At.Add(-stage); !one[0].Timestamp.Equal(want) {
			t.Errorf("%s before its end, the warning is of %s, want %s", left, one[0].Timestamp, want)
		}
	}
}

func TestEndpointGetsFilteredMessages(t *testing.T) {
	for project, want := range map[string][]writ.Code{"shop": {writ.CodeTimeout, writ.CodeNodeLost}, "p1": {writ.CodeNodeLost}} { // two tenants have a shop
		f := newFixture(t)
		r := newReceiver(t, taken)
		f.start(r, func(e *Endpoint) {
			e.Types, e.States, e.Projects = []Type{RunEnded}, []ledger.State{"failed"}, []string{project}
		})
		f.begun()
		other, posing := run(3, writ.RunFailed, writ.CodeTimeout), run(4, writ.RunFailed, writ.CodeNotFound)
		other.Run.Project = "p2"
		posing.Run.Project = "p3" // its datacenter calls it shop
		f.happens(run(1, writ.RunSucceeded, ""), node(writ.LivenessLost, epoch), other, posing, run(2, writ.RunFailed, writ.CodeNodeLost))
		for _, code := range want {
			if g := r.next(t, RunEnded); g.data("code") != string(code) || g.data("project") != "shop" {
				t.Errorf("of %s it gets %v, want %s", project, g, code)
			}
		}
	}
}

// TestNoErrorShowsThePathOfAnAddress: the path may be a secret, as with many receivers.
func TestNoErrorShowsThePathOfAnAddress(t *testing.T) {
	r := newReceiver(t, taken)
	r.Close()
	s := &Sender{Version: "v1", Now: time.Now}
	err := s.SendTest(t.Context(), &Endpoint{Name: "ops", URL: r.URL + "/T0001-very-secret"})
	if err == nil || strings.Contains(err.Error(), "very-secret") {
		t.Errorf("%v", err)
	}
}

func TestSettingsWithAnErrorAreRefused(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"good": secret, "short": "whsec_c2hvcnQ=", "plain": strings.TrimPrefix(secret, secretPrefix), "empty": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "open"), []byte(secret), 0o644); err != nil {
		t.Fatal(err)
	}
	read := func(text string) ([]Endpoint, error) {
		path := filepath.Join(dir, "webhooks.yaml")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return Read(path)
	}
	const one = "webhooks:\n  - name: ops\n    url: https://hooks.example.org/writ\n    secret_file: good\n"
	all, err := read(one + "    types: [run.ended, expires]\n    states: [failed]\n    projects: [shop]\n    datacenters: [vienna]\n")
	if err != nil || len(all) != 1 || len(all[0].secrets) != 1 || len(all[0].Types) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	for name, tt := range map[string]struct{ text, want string }{
		"nothing":           {"webhooks: []\n", "contains no webhook"},
		"an unknown field":  {one + "    token: x\n", "unknown field"},
		"a name twice":      {one + strings.TrimPrefix(one, "webhooks:\n"), "twice"},
		"an invalid name":   {strings.Replace(one, "ops", "Ops room", 1), "not the name"},
		"no address":        {strings.Replace(one, "https://hooks.example.org/writ", "hooks", 1), "no address"},
		"a password in it":  {strings.Replace(one, "https://", "https://me:pass@", 1), "no address"},
		"no TLS":            {strings.Replace(one, "https://", "http://", 1), "without https"},
		"an unknown type":   {one + "    types: [run.began]\n", "run.began"},
		"a type for people": {one + "    types: [test]\n", "test"},
		"an unknown state":  {one + "    states: [running]\n", "running"},
		"no secret":         {strings.Replace(one, "    secret_file: good\n", "", 1), "no secret_file"},
		"a missing secret":  {strings.Replace(one, "good", "gone", 1), "cannot be read"},
		"a short secret":    {strings.Replace(one, "good", "short", 1), "another form"},
		"a plain secret":    {strings.Replace(one, "good", "plain", 1), "another form"},
		"an empty secret":   {strings.Replace(one, "good", "empty", 1), "has no secret"},
		"an open secret":    {strings.Replace(one, "good", "open", 1), "other users can read"},
	} {
		if _, err := read(tt.text); writ.CodeOf(err) != writ.CodeUsage || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), secret[len(secretPrefix):]) {
			t.Errorf("%s: %v; want USAGE with %q", name, err, tt.want)
		}
	}
}

func TestProtocolSwitchEndsSending(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	testenv.SwitchingServer(t, l)
	s := &Sender{Version: "v1", Now: time.Now}
	err = testenv.End(t, func() error {
		return s.SendTest(t.Context(), &Endpoint{Name: "ops", URL: "http://" + l.Addr().String()})
	})
	if !errors.Is(err, outbound.ErrSwitched) {
		t.Errorf("%v", err)
	}
}

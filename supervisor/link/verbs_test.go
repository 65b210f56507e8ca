package link

import (
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/internal/test/gosource"
)

// asked holds which sides may receive a verb. The table is written by hand, independently of ToSupervisor and
// ToCoordinator.
type asked struct{ ofSupervisor, ofCoordinator bool }

var verbRights = map[Verb]asked{
	"submit":    {true, false},
	"statement": {true, false},
	"roster":    {true, true}, // both may lack versions
	"plan":      {true, false},
	"logs":      {true, false},
	"values":    {true, false},
	"queues":    {true, false},
	"resources": {true, false},
	"secrets":   {true, false},
	"nodes":     {true, false},
	"tokens":    {true, false},
	"batches":   {true, false},
	"holds":     {true, false},
	"node-log":  {true, false},
	"boots":     {true, false},
	"loads":     {true, false},

	"certificates":   {true, false},
	"node-standing":  {true, false},
	"token-standing": {true, false},
	"hold-standing":  {true, false},
	"adopted":        {true, false},
	"standing":       {true, false},
}

// declaredVerbs reads the constants of type Verb from the source.
func declaredVerbs(t *testing.T) (all []Verb) {
	t.Helper()
	files, err := gosource.Load(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		ast.Inspect(file.Syntax, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "Verb" && len(spec.Values) > 0 {
				text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, Verb(text))
			}
			return true
		})
	}
	slices.Sort(all)
	return all
}

// The test covers each verb in both directions, and unknown verbs. A verb without a row fails the test. A forbidden
// request never reaches a handler, even if the hello of the other side lists the verb.
//
// Promise: Readers and roles: Each side of a link answers only its own verbs, an unknown peer gets no answer, and a
// datacenter reports only its own data.
// How: There are two lists of verbs; events are stored under the datacenter of the link; a verb without a row fails
// the test.
// Also: TestAStrangersFramesAreNotRead, TestSupervisorAnswersVerbsOfItsHello, TestSupervisorAsksForRostersOnly,
// TestDatacenterReportsOnlyForItself.
func TestEachSideAnswersItsOwnVerbsOnly(t *testing.T) {
	if diff := cmp.Diff(slices.Sorted(maps.Keys(verbRights)), declaredVerbs(t)); diff != "" {
		t.Fatalf("verbs with a row (-), verbs of the package (+):\n%s", diff)
	}
	var mu sync.Mutex
	seen := map[string]bool{}
	handler := func(side string) Handler {
		return func(_ context.Context, verb Verb, _ json.RawMessage) (any, error) {
			mu.Lock()
			defer mu.Unlock()
			seen[side+" "+string(verb)] = true
			return "done", nil
		}
	}
	linked(t, func(l *Listener, d *Dialer) {
		l.Verbs = ToCoordinator
		l.HandlerFor = func(Hello) Handler { return handler("coordinator") }
		d.Hello = func() Hello { return Hello{Datacenter: dc, Journal: journal, Epoch: 5, Verbs: ToSupervisor} }
		d.Handle = handler("supervisor")
	}, func(t *testing.T, _ *Listener, d *Dialer, s *Session) {
		synctest.Wait() // until the dialer has its end of the session, too
		rows := maps.Clone(verbRights)
		for _, verb := range []Verb{"", "Submit", "submit ", "shutdown"} {
			rows[verb] = asked{}
		}
		for verb, row := range rows {
			for _, way := range []struct {
				side string
				from *peer // bypasses the checks of its own side
				may  bool
			}{{"supervisor", s.peer, row.ofSupervisor}, {"coordinator", d.peer, row.ofCoordinator}} {
				ctx, cancel := bounded(t.Context())
				err := way.from.request(ctx, writ.NewUUID(), verb, struct{}{}, nil)
				cancel()
				if (err == nil) != way.may || err != nil && writ.CodeOf(err) != writ.CodeVerbUnsupported {
					t.Errorf("a %s that is asked %q answers %v", way.side, verb, err)
				}
				mu.Lock()
				if seen[way.side+" "+string(verb)] != way.may {
					t.Errorf("the handler of the %s has seen %q: %v", way.side, verb, !way.may)
				}
				mu.Unlock()
			}
		}
	})
}

// A client that has not authenticated as a datacenter can neither request, report nor receive anything.
func TestAStrangersFramesAreNotRead(t *testing.T) {
	frames := []string{
		`{"type":"event","events":[{"journal":"j1","seq":1,"time":"2026-11-21T10:00:00Z"}]}`, `{"type":"fault","detail":"x"}`, `{"type":"ack","seq":9}`,
		`{"type":"welcome","welcome":{"session":"x"}}`, `{"type":"res","id":"1","ok":true}`,
	}
	for verb := range verbRights {
		frames = append(frames, fmt.Sprintf(`{"type":"req","id":"1","verb":%q,"params":{}}`, verb))
	}
	synctest.Test(t, func(t *testing.T) {
		net := newWire()
		stored := newArchive(0)
		l := coordinator(stored)
		l.Verbs = slices.Collect(maps.Keys(verbRights))
		l.HandlerFor = func(Hello) Handler {
			return func(_ context.Context, verb Verb, _ json.RawMessage) (any, error) {
				t.Errorf("a stranger asks %q", verb)
				return nil, nil
			}
		}
		defer net.serve(l)()
		for _, frame := range frames {
			early := net.stranger(t)
			early.next(typeChallenge)
			early.write(frame)
			for {
				f, err := early.read()
				if err != nil {
					break
				}
				t.Errorf("%s instead of a hello: answered with %q", frame, f.Type)
			}

			forged := net.stranger(t)
			forged.next(typeChallenge)
			forged.write(`{"type":"hello","hello":{"datacenter":"` + string(dc) + `","journal":"j1","signature":"AAAA"}}`)
			if f := forged.next(typeRefused); f.Error == nil || f.Error.Code != writ.CodeSignatureInvalid {
				t.Errorf("refused with %+v", f.Error)
			}
			// The connection may be closed by now.
			_ = forged.conn.Write(t.Context(), websocket.MessageText, []byte(frame))
			if f, err := forged.read(); err == nil {
				t.Errorf("%s after a refusal: answered with %q", frame, f.Type)
			}
		}
		if len(l.Sessions()) != 0 {
			t.Error("a stranger has a session")
		}
		if last, _, err := stored.LastEvent(t.Context(), dc, journal); last != 0 || err != nil {
			t.Errorf("an event of a stranger is stored: %d, %v", last, err)
		}
	})
}

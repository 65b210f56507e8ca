package link

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"writ"
	"writ/internal/test/testenv"
)

func TestWrongSignatureIsRetriedWithBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newWire()
		l, d := coordinator(newArchive(0)), supervisor(net.client(t), newBook())
		d.Sign = func(Hello, []byte, string) ([]byte, error) { return []byte("forged"), nil }
		var connected atomic.Bool
		l.Connected = func(context.Context, *Session) { connected.Store(true) }
		defer net.serve(l)()
		defer start(t, d)()
		time.Sleep(time.Hour)

		if connected.Load() || len(l.Sessions()) != 0 {
			t.Error("a forged hello got a session")
		}
		net.mu.Lock()
		defer net.mu.Unlock()
		for i := 1; i < len(net.dials); i++ {
			base := min(time.Second<<min(i-1, 10), time.Minute)
			if wait := net.dials[i].Sub(net.dials[i-1]); wait < base/2 || wait > base+time.Second {
				t.Errorf("attempt %d after %v, want %v to %v", i+1, wait, base/2, base)
			}
		}
		if n := len(net.dials); n < 60 || n > 130 {
			t.Errorf("%d attempts in an hour", n)
		}
	})
}

func TestRefusalSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newWire()
		l := coordinator(newArchive(0))
		defer net.serve(l)()
		for _, tt := range []struct {
			hello Hello
			url   string
			code  writ.Code
		}{
			// Relayed from another URL.
			{Hello{Datacenter: dc, Journal: journal}, "http://evil.test", writ.CodeSignatureInvalid},
			{Hello{Datacenter: "dc", Journal: journal}, coordAt, writ.CodeBadRequest},
			{Hello{Datacenter: dc}, coordAt, writ.CodeBadRequest},
		} {
			s := net.stranger(t)
			tt.hello.Signature = proof(s.next(typeChallenge).Nonce, tt.url)
			data, _ := (&frame{Type: typeHello, Hello: &tt.hello}).encode()
			s.write(string(data))
			if f := s.next(typeRefused); f.Error.Code != tt.code {
				t.Errorf("%+v is refused with %s, want %s", tt.hello, f.Error.Code, tt.code)
			}
		}
	})
}

func TestRefusedSessionsLogFewLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, log := newWire(), new(testenv.Log)
		l := coordinator(newArchive(0))
		l.Log = log.Logger()
		defer net.serve(l)()
		forged, _ := (&frame{Type: typeHello, Hello: &Hello{Datacenter: dc, Journal: journal, Signature: []byte("forged")}}).encode()
		for i := range 1000 {
			s := net.stranger(t)
			s.next(typeChallenge)
			if i%2 == 0 {
				s.write("nonsense")
			} else {
				s.write(string(forged))
			}
			for _, err := s.read(); err == nil; {
				_, err = s.read()
			}
			_ = s.conn.CloseNow()
		}
		if lines := log.Lines("link refused"); lines != 2 || log.Lines("code=SIGNATURE_INVALID") != 1 || log.Lines("code=BAD_REQUEST") != 1 {
			t.Errorf("a thousand refusals of two kinds make %d lines:\n%.2000s", lines, log)
		}
	})
}

func TestAFlappingLinkLogsFewLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const times = 500
		net, here, there := newWire(), new(testenv.Log), new(testenv.Log)
		l, d := coordinator(newArchive(0)), supervisor(net.client(t), newBook())
		l.Log, d.Log = here.Logger(), there.Logger()
		came := make(chan *Session)
		l.Connected = func(_ context.Context, s *Session) { came <- s }
		defer net.serve(l)()
		defer start(t, d)()
		began := time.Now()
		for range times {
			session := <-came
			time.Sleep(minRetry) // shorter sessions are retried less and less often
			session.end(errors.New("cut by the test"))
		}
		most := 2 * (comingsAtOnce + int(time.Since(began)/(10*time.Second)) + 1)
		for name, log := range map[string]*testenv.Log{"the coordinator": here, "the supervisor": there} {
			if lines := log.Lines(""); lines < comingsAtOnce || lines > most || most > times/2 {
				t.Errorf("%s writes %d lines of %d sessions, at most %d are right", name, lines, times, most)
			}
		}
	})
}

func TestAChallengeIsUsedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newWire()
		defer net.serve(coordinator(newArchive(0)))()
		nonce := net.stranger(t).next(typeChallenge).Nonce
		second := net.stranger(t)
		second.next(typeChallenge)
		data, _ := (&frame{Type: typeHello, Hello: &Hello{Datacenter: dc, Journal: journal, Signature: proof(nonce, coordAt)}}).encode()
		second.write(string(data))
		if f := second.next(typeRefused); f.Error.Code != writ.CodeSignatureInvalid {
			t.Errorf("the answer to another connection's challenge is refused with %s", f.Error.Code)
		}
	})
}

func TestNewestSessionReplacesTheOneBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newWire()
		l := coordinator(newArchive(0))
		sessions := connected(l)
		defer net.serve(l)()
		hello := Hello{Datacenter: dc, Journal: journal, Epoch: 5}
		net.stranger(t).greet(hello)
		first := within(t, sessions, "the first session")
		net.stranger(t).greet(hello)
		second := within(t, sessions, "the second session")
		within(t, first.Done(), "the end of the first session")
		if got, ok := l.Session(dc); !ok || got != second {
			t.Errorf("Session = %v, %v, want the second", got, ok)
		}
		hello.Epoch = 4 // fenced without knowing it yet
		if f := net.stranger(t).greet(hello); f.Type != typeRefused || f.Error.Code != writ.CodeConflict {
			t.Errorf("a supervisor of an older epoch gets %+v", f)
		}
		other := Hello{Datacenter: "0192f6c2-0000-7000-8000-000000000002", Journal: "j2"}
		net.stranger(t).greet(other)
		within(t, sessions, "the session of another datacenter")
		if all := l.Sessions(); len(all) != 2 || all[0] != second || all[1].Hello.Datacenter != other.Datacenter {
			t.Errorf("Sessions = %v", all)
		}
	})
}

func TestClosedListenerEndsItsSessions(t *testing.T) {
	linked(t, nil, func(t *testing.T, l *Listener, _ *Dialer, s *Session) {
		l.Close()
		select {
		case <-s.Done():
		default:
			t.Error("a session continues after Close")
		}
		if err := s.Request(t.Context(), VerbSubmit, 1, nil); writ.CodeOf(err) != writ.CodeDatacenterAway {
			t.Errorf("Request = %v, want DATACENTER_UNAVAILABLE", err)
		}
		if all := l.Sessions(); len(all) != 0 {
			t.Errorf("Sessions = %v after Close", all)
		}
	})
}

func TestRepeatedIDGetsTheSameAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newWire()
		l := coordinator(newArchive(0))
		var calls atomic.Int32
		l.Verbs = []Verb{VerbRoster}
		l.HandlerFor = func(Hello) Handler {
			return func(context.Context, Verb, json.RawMessage) (any, error) {
				return calls.Add(1), nil
			}
		}
		defer net.serve(l)()
		hello := Hello{Datacenter: dc, Journal: journal}
		const request = `{"type":"req","id":"r1","verb":"roster","params":{}}`
		for range 2 { // also in the next session
			s := net.stranger(t)
			s.greet(hello)
			for range 2 {
				s.write(request)
				if f := s.next(typeResponse); f.ID != "r1" || !f.OK || string(f.Result) != "1" {
					t.Errorf("answer = %+v", f)
				}
			}
		}
		s := net.stranger(t)
		s.greet(hello)
		for range maxAnswers {
			s.write(`{"type":"req","id":"` + writ.NewUUID() + `","verb":"roster"}`)
			s.next(typeResponse)
		}
		s.write(request)
		if f := s.next(typeResponse); string(f.Result) == "1" {
			t.Errorf("an answer is remembered beyond the window of %d", maxAnswers)
		}
	})
}

func TestAnswerWaitsForTheNextSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newWire()
		l := coordinator(newArchive(0))
		l.Verbs = []Verb{VerbRoster}
		begun, finish := make(chan struct{}), make(chan struct{})
		l.HandlerFor = func(Hello) Handler {
			return func(ctx context.Context, _ Verb, _ json.RawMessage) (any, error) {
				close(begun)
				<-finish
				return "done", ctx.Err()
			}
		}
		defer net.serve(l)()
		hello := Hello{Datacenter: dc, Journal: journal}
		const request = `{"type":"req","id":"r1","verb":"roster","params":{}}`
		first := net.stranger(t)
		first.greet(hello)
		first.write(request)
		within(t, begun, "the handler")
		_ = first.conn.CloseNow()

		second := net.stranger(t)
		second.greet(hello)
		second.write(request)
		close(finish)
		if f := second.next(typeResponse); !f.OK || string(f.Result) != `"done"` {
			t.Errorf("answer = %+v", f)
		}
	})
}

func TestMisbehavingPeersAreDisconnected(t *testing.T) {
	hello := Hello{Datacenter: dc, Journal: journal, Verbs: []Verb{VerbSubmit}}
	for name, test := range map[string]func(t *testing.T, s *stranger, session *Session){
		"no frame for a minute": func(t *testing.T, s *stranger, session *Session) {
			began := time.Now()
			within(t, session.Done(), "the end of the session")
			if took := time.Since(began); took != readWithin {
				t.Errorf("given up after %v, want %v", took, readWithin)
			}
		},
		"takes no bytes": func(t *testing.T, s *stranger, session *Session) {
			began := time.Now()
			for time.Since(began) < 5*time.Minute { // it sends, but does not read
				if s.conn.Write(t.Context(), websocket.MessageText, []byte(`{"type":"ping"}`)) != nil {
					break
				}
				time.Sleep(pingEvery)
			}
			if took := time.Since(began); took < writeWithin || took > writeWithin+pingEvery {
				t.Errorf("given up after %v, want %v", took, writeWithin)
			}
		},
		"frame too large": func(t *testing.T, s *stranger, session *Session) {
			s.write(`{"type":"ping","detail":"` + strings.Repeat("x", MaxFrame) + `"}`)
			s.refused(websocket.StatusMessageTooBig)
		},
		"no JSON": func(t *testing.T, s *stranger, session *Session) {
			s.write(`{"type":`)
			s.refused(websocket.StatusPolicyViolation)
		},
		"request without id": func(t *testing.T, s *stranger, session *Session) {
			s.write(`{"type":"req","verb":"roster"}`)
			s.refused(websocket.StatusPolicyViolation)
		},
		"event out of order": func(t *testing.T, s *stranger, session *Session) {
			// The first event of a journal may have any number.
			const event = `{"journal":"j1","seq":%d,"time":"2026-11-21T10:00:00Z"}`
			// In one frame, so that no acknowledgement is in flight: the end of the session would cut it, and the
			// connection with it.
			s.write(fmt.Sprintf(`{"type":"event","events":[`+event+`,`+event+`]}`, 7, 9))
			s.refused(websocket.StatusPolicyViolation)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := newWire()
				l := coordinator(newArchive(0))
				sessions := connected(l)
				defer net.serve(l)()
				s := net.stranger(t)
				s.greet(hello)
				session := within(t, sessions, "the session")
				test(t, s, session)
				within(t, session.Done(), "the end of the session")
			})
		})
	}
}

// refused reads until the coordinator closes the connection with the given status.
func (s *stranger) refused(want websocket.StatusCode) {
	s.t.Helper()
	for {
		if _, err := s.read(); err != nil {
			if got := websocket.CloseStatus(err); got != want {
				s.t.Errorf("closed with %v (%v), want %v", got, err, want)
			}
			return
		}
	}
}

func TestUnauthenticatedClientSendsLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newWire()
		defer net.serve(coordinator(newArchive(0)))()
		big := net.stranger(t)
		big.next(typeChallenge)
		big.write(`{"type":"hello","hello":{"version":"` + strings.Repeat("x", maxGreeting) + `"}}`)
		big.refused(websocket.StatusMessageTooBig)

		mute := net.stranger(t)
		mute.next(typeChallenge)
		began := time.Now()
		if f, err := mute.read(); err == nil {
			t.Errorf("a mute stranger gets %+v", f)
		}
		if took := time.Since(began); took != greetWithin {
			t.Errorf("a mute stranger is given up after %v, want %v", took, greetWithin)
		}
	})
}

func TestFramesOfLaterVersionsArePassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newWire()
		l := coordinator(newArchive(0))
		defer net.serve(l)()
		s := net.stranger(t)
		s.greet(Hello{Datacenter: dc, Journal: journal})
		s.write(`{"type":"gossip","rumour":[1,2.5,{"x":null}]}`)
		s.write(`{"type":"res","id":"of nobody","ok":true}`)
		s.write(`{"type":"ping","more":1}`)
		s.next(typePong)
	})
}

// TestShortSessionsAreRetriedLessOften covers a coordinator with a damaged ledger: it welcomes each session and ends it
// immediately.
func TestShortSessionsAreRetriedLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const times = 20
		net := newWire()
		l, d := coordinator(newArchive(0)), supervisor(net.client(t), newBook())
		came := make(chan *Session)
		l.Connected = func(_ context.Context, s *Session) { came <- s }
		defer net.serve(l)()
		defer start(t, d)()
		began := time.Now()
		for range times {
			(<-came).end(errors.New("cut by the test"))
		}
		if took := time.Since(began); took < times*minRetry {
			t.Errorf("%d sessions within %s", times, took)
		}
	})
}

package link

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/internal/test/testenv"
)

// linked runs a coordinator and a supervisor in a bubble and gives test their session.
func linked(t *testing.T, change func(*Listener, *Dialer), test func(t *testing.T, l *Listener, d *Dialer, s *Session)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		net := newWire()
		l, d := coordinator(newArchive(0)), supervisor(net.client(t), newBook())
		sessions := connected(l)
		if change != nil {
			change(l, d)
		}
		defer net.serve(l)()
		defer start(t, d)()
		test(t, l, d, within(t, sessions, "the session"))
	})
}

func TestBothSidesAnswerRequestsOverLoopback(t *testing.T) {
	l := coordinator(newArchive(0))
	l.Verbs = []Verb{VerbRoster}
	l.HandlerFor = func(hello Hello) Handler {
		return func(_ context.Context, verb Verb, params json.RawMessage) (any, error) {
			return fmt.Sprintf("%s %s from %s", verb, params, hello.Datacenter), nil
		}
	}
	sessions := connected(l)
	server := httptest.NewServer(l)
	defer server.Close()
	defer l.Close()
	d := supervisor(server.Client(), newBook())
	d.URL = server.URL
	d.Sign = func(_ Hello, nonce []byte, _ string) ([]byte, error) { return proof(nonce, coordAt), nil }
	welcomes := make(chan Welcome, 1)
	d.Welcomed = func(_ context.Context, w Welcome) { welcomes <- w }
	defer start(t, d)()
	s := within(t, sessions, "the session")

	if w := within(t, welcomes, "the welcome"); w.Session != s.ID || w.Roster != 7 || !slices.Equal(w.Coordinators, []string{coordAt}) {
		t.Errorf("Welcome = %+v", w)
	}
	if got, ok := l.Session(dc); !ok || got != s || s.Hello.Version != "1.2.3" || s.Hello.Epoch != 5 {
		t.Errorf("Session = %v %v, hello %+v", got, ok, s.Hello)
	}
	var answer struct{ Echo string }
	if err := l.Request(t.Context(), dc, VerbSubmit, "text", &answer); err != nil || answer.Echo != "text" {
		t.Errorf("Request = %+v, %v", answer, err)
	}
	var registered string
	if err := d.Request(t.Context(), VerbRoster, 1, &registered); err != nil || registered != "roster 1 from "+string(dc) {
		t.Errorf("Dialer.Request = %q, %v", registered, err)
	}
}

func TestErrorsCrossTheLink(t *testing.T) {
	linked(t, nil, func(t *testing.T, l *Listener, d *Dialer, s *Session) {
		for _, tt := range []struct {
			name string
			do   func() error
			code writ.Code
			says string
		}{
			{"the handler's own error", func() error { return s.Request(t.Context(), VerbPlan, 1, nil) }, writ.CodeScriptInvalid, "line 3 is wrong"},
			{"an unexpected error", func() error { return s.Request(t.Context(), VerbValues, 1, nil) }, writ.CodeExecError, "log"},
			{"a verb that hello did not name", func() error { return s.Request(t.Context(), VerbQueues, 1, nil) }, writ.CodeVerbUnsupported, `"queues"`},
			{"a verb that the coordinator does not answer", func() error { return d.Request(t.Context(), "dance", 1, nil) }, writ.CodeVerbUnsupported, `"dance"`},
			{"parameters that do not fit", func() error { return s.Request(t.Context(), VerbSubmit, make([]byte, MaxFrame), nil) }, writ.CodeTooLarge, "1048576"},
			{"an answer that does not fit", func() error { return s.Request(t.Context(), VerbLogs, 1, nil) }, writ.CodeTooLarge, "1048576"},
			{"an answer of another form", func() error { return s.Request(t.Context(), VerbSubmit, 1, new(int)) }, writ.CodeExecError, "submit"},
			{"a datacenter that is not there", func() error { return l.Request(t.Context(), "nowhere", VerbSubmit, 1, nil) }, writ.CodeDatacenterAway, "nowhere"},
		} {
			err := tt.do()
			if writ.CodeOf(err) != tt.code || !strings.Contains(fmt.Sprint(err), tt.says) || strings.Contains(fmt.Sprint(err), "secret") {
				t.Errorf("%s: %v (%s), want %s and %q", tt.name, err, writ.CodeOf(err), tt.code, tt.says)
			}
		}
		if e := writ.AsError(s.Request(t.Context(), VerbPlan, 1, nil)); e.Hint != "look at line 3" {
			t.Errorf("the hint arrives as %q", e.Hint)
		}
	})
}

func TestRequestsEndInTime(t *testing.T) {
	change := func(_ *Listener, d *Dialer) {
		d.Handle = func(ctx context.Context, _ Verb, _ json.RawMessage) (any, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
	}
	linked(t, change, func(t *testing.T, l *Listener, _ *Dialer, s *Session) {
		began := time.Now()
		if err := s.Request(t.Context(), VerbSubmit, 1, nil); writ.CodeOf(err) != writ.CodeTimeout {
			t.Errorf("without deadline: %v, want TIMEOUT", err)
		}
		if took := time.Since(began); took != requestWithin {
			t.Errorf("without deadline it took %v, want %v", took, requestWithin)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Request(ctx, dc, VerbSubmit, 1, nil); writ.CodeOf(err) != writ.CodeTimeout {
			t.Errorf("with deadline: %v, want TIMEOUT", err)
		}
		ctx, cancel = context.WithCancel(t.Context())
		cancel()
		if err := s.Request(ctx, VerbSubmit, 1, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v, want the caller's own error", err)
		}
	})
}

// The supervisor continues a request when its link is cut, and answers in the next session. It handles the request
// once.
func TestRequestOutlivesItsSession(t *testing.T) {
	var calls atomic.Int32
	var begun, finish chan struct{} // created in the bubble
	linked(t, func(_ *Listener, d *Dialer) {
		begun, finish = make(chan struct{}, 1), make(chan struct{})
		d.Handle = func(context.Context, Verb, json.RawMessage) (any, error) {
			calls.Add(1)
			begun <- struct{}{}
			<-finish
			return "done", nil
		}
	}, func(t *testing.T, l *Listener, _ *Dialer, s *Session) {
		type outcome struct {
			text string
			err  error
		}
		asked := make(chan outcome, 2)
		go func() {
			var o outcome
			o.err = l.Request(t.Context(), dc, VerbSubmit, 1, &o.text)
			asked <- o
		}()
		within(t, begun, "the handler")
		cut := make(chan error, 1)
		go func() { cut <- s.Request(t.Context(), VerbSubmit, 1, nil) }()
		within(t, begun, "the second handler")
		s.end(errors.New("cut"))
		if err := within(t, cut, "the end of the session's request"); writ.CodeOf(err) != writ.CodeDatacenterAway {
			t.Errorf("Session.Request = %v, want DATACENTER_UNAVAILABLE", err)
		}
		time.Sleep(3 * time.Second) // the link is restored
		close(finish)
		if o := within(t, asked, "the answer"); o.err != nil || o.text != "done" {
			t.Errorf("Listener.Request = %+v", o)
		}
		if n := calls.Load(); n != 2 {
			t.Errorf("two requests were done %d times", n)
		}
	})
}

func TestRequestGivesUpOnADatacenterThatStaysAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newWire()
		l, d := coordinator(newArchive(0)), supervisor(net.client(t), newBook())
		begun := make(chan struct{}, 1)
		d.Handle = func(ctx context.Context, _ Verb, _ json.RawMessage) (any, error) {
			begun <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		}
		sessions := connected(l)
		defer net.serve(l)()
		stop := start(t, d)
		within(t, sessions, "the session")
		asked := make(chan error, 1)
		go func() { asked <- l.Request(t.Context(), dc, VerbSubmit, 1, nil) }()
		within(t, begun, "the handler")
		stop()
		if err := within(t, asked, "the answer"); writ.CodeOf(err) != writ.CodeDatacenterAway {
			t.Errorf("Request = %v, want DATACENTER_UNAVAILABLE", err)
		}
		if err := d.Request(t.Context(), VerbRoster, 1, nil); writ.CodeOf(err) != writ.CodeUnreachable {
			t.Errorf("Dialer.Request without a link = %v, want UNREACHABLE", err)
		}
	})
}

func TestHandlerPanicIsAnAnswer(t *testing.T) {
	change := func(_ *Listener, d *Dialer) {
		d.Handle = func(context.Context, Verb, json.RawMessage) (any, error) { panic("ouch") }
	}
	linked(t, change, func(t *testing.T, _ *Listener, _ *Dialer, s *Session) {
		for range 2 { // the session survives it
			if err := s.Request(t.Context(), VerbSubmit, 1, nil); writ.CodeOf(err) != writ.CodeExecError {
				t.Errorf("Request = %v, want EXEC_ERROR", err)
			}
		}
	})
}

// If the link is cut, the other side repeats a request elsewhere. An answer that reports only the shutdown would end
// the request finally.
func TestNoRequestIsAnsweredAfterAStop(t *testing.T) {
	for range 64 { // a select would choose either case
		ctx, cancel := context.WithCancel(t.Context())
		p := &peer{out: make(chan []byte, 1), done: make(chan struct{}), verbs: []Verb{VerbSubmit}}
		p.answer = func(ctx context.Context, _ Verb, _ json.RawMessage) (any, error) {
			cancel()
			return nil, ctx.Err()
		}
		var running sync.WaitGroup
		newDesk(&running, slog.New(slog.DiscardHandler)).take(ctx, p, &frame{Type: typeRequest, ID: "1", Verb: VerbSubmit})
		running.Wait()
		if len(p.out) > 0 {
			t.Fatalf("it answers %s", <-p.out)
		}
	}
}

// Requests that fail only because of a shutdown are not logged as errors.
func TestAnswerCutByShutdownIsNoError(t *testing.T) {
	var said bytes.Buffer
	linked(t, func(_ *Listener, d *Dialer) {
		d.Log = slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelError}))
		d.Handle = func(ctx context.Context, _ Verb, _ json.RawMessage) (any, error) {
			<-ctx.Done()
			return nil, fmt.Errorf("write: %w", ctx.Err())
		}
	}, func(t *testing.T, _ *Listener, _ *Dialer, s *Session) {
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Request(ctx, VerbSubmit, 1, nil) }()
		synctest.Wait()
		stop() // the caller has given up; then the supervisor stops
		<-done
	})
	if said.Len() > 0 {
		t.Errorf("it said: %s", said.String())
	}
}

func TestFailingRequestsLogFewLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, log := newWire(), new(testenv.Log)
		l, d := coordinator(newArchive(0)), supervisor(net.client(t), newBook())
		d.Log = log.Logger()
		sessions := connected(l)
		defer net.serve(l)()
		defer start(t, d)()
		within(t, sessions, "the session")
		for range 1000 {
			if err := l.Request(t.Context(), dc, VerbValues, nil, nil); writ.CodeOf(err) != writ.CodeExecError {
				t.Fatal(err)
			}
		}
		if lines := log.Lines("answer request"); lines == 0 || lines > 3 {
			t.Errorf("a thousand requests make %d lines", lines)
		}
		for range 1000 {
			if err := l.Request(t.Context(), dc, VerbPlan, nil, nil); writ.CodeOf(err) != writ.CodeScriptInvalid {
				t.Fatal(err)
			}
		}
		if lines := log.Lines("verb=plan"); lines == 0 || lines > 3 || log.Lines("code=SCRIPT_INVALID") != lines {
			t.Errorf("a thousand requests that are refused make %d lines:\n%s", lines, log)
		}
	})
}

func TestTooManyRequestsAreRefused(t *testing.T) {
	var release chan struct{}
	linked(t, func(_ *Listener, d *Dialer) {
		release = make(chan struct{})
		d.Handle = func(context.Context, Verb, json.RawMessage) (any, error) {
			<-release
			return nil, nil
		}
	}, func(t *testing.T, _ *Listener, _ *Dialer, s *Session) {
		done := make(chan error, maxRunning)
		for range maxRunning {
			go func() { done <- s.Request(t.Context(), VerbSubmit, 1, nil) }()
		}
		synctest.Wait()
		if err := s.Request(t.Context(), VerbSubmit, 1, nil); writ.CodeOf(err) != writ.CodeRateLimited {
			t.Errorf("request %d = %v, want RATE_LIMITED", maxRunning+1, err)
		}
		close(release)
		for range maxRunning {
			if err := within(t, done, "an answer"); err != nil {
				t.Error(err)
			}
		}
	})
}

// Promise: Load and attackers: Requests of a coordinator or datacenter that reads no answers take bounded memory.
// How: A request keeps its place until its answer is sent; repeated answers beyond 1,024 are dropped.
func TestUnreadAnswersAreBounded(t *testing.T) {
	for name, id := range map[string]func(i int) string{
		"new requests":      func(i int) string { return fmt.Sprint(i) },
		"one, again":        func(int) string { return "1" },
		"unknown requests":  func(i int) string { return fmt.Sprint("unknown-", i) },
		"some, and a crowd": func(i int) string { return fmt.Sprint(i % 500) },
	} {
		t.Run(name, func(t *testing.T) {
			p := &peer{out: make(chan []byte), done: make(chan struct{}), verbs: []Verb{VerbSubmit}}
			p.answer = func(context.Context, Verb, json.RawMessage) (any, error) { return 1, nil }
			var running sync.WaitGroup
			d := newDesk(&running, slog.New(slog.DiscardHandler))
			before, most := runtime.NumGoroutine(), 0
			for i := range 20_000 {
				f := &frame{Type: typeRequest, ID: id(i), Verb: VerbSubmit}
				if strings.HasPrefix(f.ID, "unknown") {
					f.Verb = "unknown"
				}
				d.take(t.Context(), p, f)
				most = max(most, runtime.NumGoroutine()-before)
				runtime.Gosched()
			}
			if most > maxRunning+maxRepeats+100 {
				t.Errorf("%d goroutines wait for a reader", most)
			}
			close(p.done) // the session ends
			running.Wait()
			if d.busy != 0 || d.repeats != 0 {
				t.Errorf("%d requests and %d repeated answers are left", d.busy, d.repeats)
			}
		})
	}
}

func TestAnswersKeepEveryDigit(t *testing.T) {
	const large = int64(1)<<53 + 1
	change := func(_ *Listener, d *Dialer) {
		d.Handle = func(context.Context, Verb, json.RawMessage) (any, error) {
			return RunValues{Calls: []CallValues{{Values: map[string]any{"n": large, "list": []any{large, map[string]any{"m": large}}}}}}, nil
		}
	}
	linked(t, change, func(t *testing.T, _ *Listener, _ *Dialer, s *Session) {
		var got RunValues
		if err := s.Request(t.Context(), VerbValues, 1, &got); err != nil {
			t.Fatal(err)
		}
		want := map[string]any{"n": large, "list": []any{large, map[string]any{"m": large}}}
		if diff := cmp.Diff(want, got.Calls[0].Values); diff != "" {
			t.Error(diff)
		}
		if err := writ.CheckValue(got.Calls[0].Values); err != nil {
			t.Error(err)
		}
	})
}

func TestDecodeRefusesUnknownFields(t *testing.T) {
	for _, params := range []string{``, `null x`, `{"signed":"YQ==","more":1}`, `{"signed":1}`, `[`} {
		if err := Decode(json.RawMessage(params), &Submit{}); writ.CodeOf(err) != writ.CodeBadRequest {
			t.Errorf("Decode(%q) = %v, want BAD_REQUEST", params, err)
		}
	}
	var floats any
	if err := Decode(json.RawMessage(`{"half":0.5}`), &floats); writ.CodeOf(err) != writ.CodeBadRequest {
		t.Errorf("Decode of a float = %v, want BAD_REQUEST", err)
	}
	var s Submit
	if err := Decode(json.RawMessage(`{"signed":"YQ=="}`), &s); err != nil || string(s.Signed) != "a" {
		t.Errorf("Decode = %q, %v", s.Signed, err)
	}
}

// Reading a coordinator's frames costs CPU for any content, so the rate is limited.
//
// Promise: Load and attackers: A supervisor reads at most 8 MiB a second from a coordinator, 32 MiB at once.
// How: A rate for each link, which a new session does not reset.
func TestOfACoordinatorSoMuchIsReadInASecond(t *testing.T) {
	linked(t, func(_ *Listener, d *Dialer) {
		d.Handle = func(context.Context, Verb, json.RawMessage) (any, error) { return nil, nil }
	}, func(t *testing.T, _ *Listener, _ *Dialer, s *Session) {
		const all, size = 64 << 20, 512 << 10
		began := time.Now()
		for range all / size {
			if err := s.Request(t.Context(), VerbSubmit, strings.Repeat("x", size), nil); err != nil {
				t.Fatal(err)
			}
		}
		want := time.Duration((all-readBytesOnce)/readBytes) * time.Second
		if took := time.Since(began); took < want || took > want+want/10 {
			t.Errorf("%d MiB are read within %s, want %s", all>>20, took, want)
		}
	})
}

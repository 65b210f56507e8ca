package link

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
)

// Any input is a frame or a protocol error. A frame is unchanged when it is encoded again.
func FuzzFrame(f *testing.F) {
	for _, seed := range []string{
		`{"type":"challenge","nonce":"MDEyMzQ1Njc4OWFiY2RlZg=="}`,
		`{"type":"hello","hello":{"datacenter":"d","journal":"j","version":"1","verbs":["submit"],"epoch":1,"roster":1,"signature":"AA=="}}`,
		`{"type":"welcome","welcome":{"session":"s","roster":2,"coordinators":["http://c"],"ack":9}}`,
		`{"type":"refused","error":{"code":"SIGNATURE_INVALID","message":"no","retryable":false}}`,
		`{"type":"req","id":"1","verb":"submit","params":{"signed":"AA=="}}`,
		`{"type":"res","id":"1","ok":true,"result":null}`,
		`{"type":"res","id":"1","error":{"code":"X","message":"m","hint":"h","retryable":true}}`,
		`{"type":"event","events":[{"journal":"j1","seq":11,"time":"2026-11-21T10:00:00Z","run":{"output":{"n":9007199254740993}}}]}`,
		`{"type":"ack","seq":9223372036854775807}`,
		`{"type":"ping"}`, `{}`, `[]`, `null`, `{"type":"req"}`, `{"type":"event","events":{}}`, "{\"type\":\"\xff\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Add([]byte("{\"type\":\"req\",\"id\":\"1\",\"verb\":\"submit\"}\x00text"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if got, err := decodeBinary(data); err == nil {
			_ = Decode(got.Params, new(Submit))
		} else if _, ok := errors.AsType[protocolError](err); !ok {
			t.Fatalf("decodeBinary = %v, want a protocol error", err)
		}
		got, err := decodeFrame(data)
		if err != nil {
			if _, ok := errors.AsType[protocolError](err); !ok {
				t.Fatalf("decodeFrame = %v, want a protocol error", err)
			}
			return
		}
		if got.Type == typeEvent {
			_ = received(got, 10)
		}
		once, err := got.encode()
		if err != nil {
			t.Fatalf("encode the decoded frame: %v", err)
		}
		again, err := decodeFrame(once)
		if err != nil {
			t.Fatalf("decode the encoded frame: %v", err)
		}
		twice, err := again.encode()
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("encoding is not stable: %s, then %s, %v", once, twice, err)
		}
		if diff := cmp.Diff(got.Type, again.Type); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestFailureNamesItsSource(t *testing.T) {
	for name, tt := range map[string]struct {
		f    *failure
		code writ.Code
		says string
	}{
		"missing":  {nil, writ.CodeExecError, "the supervisor sent neither a result nor an error for request r1"},
		"internal": {&failure{Code: writ.CodeInternal, Message: "internal error"}, writ.CodeExecError, "its log has the cause, under request r1"},
		"newer":    {&failure{Code: "NEW", Message: "no"}, writ.CodeExecError, "no (NEW)"},
		"known":    {&failure{Code: writ.CodeNotFound, Message: "there is no run"}, writ.CodeNotFound, "there is no run"},
	} {
		if got := tt.f.asError("the supervisor", "r1"); got.Code != tt.code || !strings.Contains(got.Message, tt.says) {
			t.Errorf("%s: %s %v", name, got.Code, got)
		}
	}
}

// BenchmarkEventsHeard measures a coordinator's work on a frame of events before it stores them.
func BenchmarkEventsHeard(b *testing.B) {
	var events []writ.Event
	for seq := range int64(20) {
		events = append(events, writ.Event{Seq: seq + 1, Time: time.Unix(seq, 0), Call: &writ.Call{
			Run: "aaaaaaaaaaaaaaaaaaaaaaaaaa", Seq: int(seq), Operation: "node.ping", State: writ.CallSucceeded, NodeName: "n1", Attempt: 1, Delivery: 1, Planned: time.Unix(seq, 0),
		}})
	}
	encoded, err := encode(events)
	if err != nil {
		b.Fatal(err)
	}
	var head eventHead
	if err := head.set("j1"); err != nil {
		b.Fatal(err)
	}
	data, _, err := eventFrame(head.text, encoded)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		f, err := decodeFrame(data)
		if err == nil {
			err = received(f, 0)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

func TestAReasonIsNotCutInsideACharacter(t *testing.T) {
	for reason, want := range map[string]string{
		"a frame too many":                    "a frame too many",
		strings.Repeat("x", 119) + "é and on": strings.Repeat("x", 119),
		"not \xff text":                       "not  text",
	} {
		if got := shortened(reason); got != want {
			t.Errorf("%q is sent as %q, want %q", reason, got, want)
		}
	}
}

// submitted returns the text of the submission in a message.
func submitted(t *testing.T, f *frame, err error) string {
	t.Helper()
	var got Submit
	if err == nil {
		err = Decode(f.Params, &got)
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(got.Signed)
}

// A text travels as bytes to a supervisor that announces it, and as JSON to one of an earlier version.
func TestSubmissionTravelsAsBytes(t *testing.T) {
	text := "a text with \x00, \" and \xff"
	for binary, reads := range map[bool]binaryReader{true: decodeBinary, false: decodeFrame} {
		data, err := (&peer{binary: binary}).encodeRequest("1", VerbSubmit, Submit{Signed: []byte(text)})
		if err != nil || bytes.Contains(data, []byte(text)) != binary {
			t.Fatalf("binary %v: %q, %v", binary, data, err)
		}
		f, err := reads(data)
		if got := submitted(t, f, err); got != text || f.ID != "1" || f.Verb != VerbSubmit {
			t.Errorf("binary %v: %q in %+v", binary, got, f)
		}
	}
}

func TestBinaryMessageIsOneRequest(t *testing.T) {
	for _, data := range []string{
		"", "text", `{"type":"req","id":"1","verb":"submit"}`, "\x00text", "{\x00text",
		"{\"type\":\"req\",\"id\":\"1\",\"verb\":\"submit\",\"params\":{}}\x00text", "{\"type\":\"event\",\"events\":[]}\x00text",
		"{\"type\":\"res\",\"id\":\"1\",\"ok\":true}\x00text", "{\"type\":\"req\",\"id\":\"\",\"verb\":\"submit\"}\x00text",
	} {
		f, err := decodeBinary([]byte(data))
		if _, ok := errors.AsType[protocolError](err); !ok {
			t.Errorf("%q: %+v, %v", data, f, err)
		}
	}
	if err := Decode([]byte("\x00text"), new(Statement)); writ.CodeOf(err) != writ.CodeBadRequest {
		t.Errorf("bytes for a request with JSON: %v", err)
	}
}

package api_test

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/coord/api"
	"writ/supervisor/link"
)

func spec(t testing.TB) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(api.Spec)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestSpecIsValidOpenAPI(t *testing.T) {
	if err := spec(t).Validate(t.Context()); err != nil {
		t.Error(err)
	}
}

// The spec describes views that equal shared types by hand: the fields, the required ones, and their contents must
// match the Go types.
func TestSpecDescribesTheSharedTypes(t *testing.T) {
	doc := spec(t)
	for name, v := range map[string]any{
		"Submission": writ.Submission{}, "Call": writ.Call{}, "Node": writ.Node{}, "Host": writ.Host{}, "HostDisk": writ.HostDisk{}, "HostPart": writ.HostPart{}, "HostNIC": writ.HostNIC{}, "NodeDriver": writ.NodeDriver{}, "Capacity": capacityJSON{},
		"QueueDepth": writ.QueueDepth{}, "Resource": writ.Resource{}, "LogLine": writ.LogLine{}, "NodeLine": link.NodeLine{}, "NodeLog": link.NodeLog{}, "Proposal": writ.Proposal{}, "Preview": writ.Preview{}, "PreviewedCall": writ.PreviewedCall{},
		"NodeVerdict": writ.NodeVerdict{}, "Reason": writ.Reason{}, "HoldReason": writ.HoldReason{}, "NodesReason": writ.NodesReason{}, "KeptResource": writ.KeptResource{}, "Error": writ.Error{}, "Failure": writ.Failure{},
		"Run": api.Run{}, "Event": api.Event{}, "RunValues": api.RunValues{},
	} {
		ref := doc.Components.Schemas[name]
		if ref == nil {
			t.Errorf("%s is not in the spec", name)
			continue
		}
		fields := map[string]string{}
		var required []string
		describe(reflect.TypeOf(v), fields, &required)
		described := map[string]string{}
		for field, property := range ref.Value.Properties {
			described[field] = kindOf(property.Value)
		}
		if diff := cmp.Diff(fields, described); diff != "" {
			t.Errorf("%s: the type has (-), the spec has (+):\n%s", name, diff)
		}
		slices.Sort(required)
		if diff := cmp.Diff(required, slices.Sorted(slices.Values(ref.Value.Required))); diff != "" {
			t.Errorf("%s: always in the JSON (-), required by the spec (+):\n%s", name, diff)
		}
	}
}

// capacityJSON has the fields that the method MarshalJSON of writ.Capacity writes.
type capacityJSON struct {
	CPUs      float64 `json:"cpus"`
	MemoryMiB int64   `json:"memory_mib"`
	DiskGiB   int64   `json:"disk_gib"`
}

func kindOf(s *openapi3.Schema) string {
	if len(s.AllOf) > 0 {
		return "object"
	}
	return strings.Join(s.Type.Slice(), " or ")
}

// describe collects the JSON fields of a struct with their kinds, and the names of the fields that are never omitted.
func describe(t reflect.Type, fields map[string]string, required *[]string) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case f.Anonymous && name == "":
			describe(f.Type, fields, required)
		default:
			fields[name] = jsonKind(f.Type)
			if options == "" {
				*required = append(*required, name)
			}
		}
	}
}

func jsonKind(t reflect.Type) string {
	if t.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
		return "string"
	}
	if t == reflect.TypeFor[json.RawMessage]() {
		return "object"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return jsonKind(t.Elem())
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Int64:
		return "integer"
	case reflect.Float64:
		return "number"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "string"
		}
		return "array"
	default:
		return "object"
	}
}

func TestStatesOfRunsAreThoseOfTheSharedTypes(t *testing.T) {
	for _, state := range []writ.RunState{writ.RunAccepted, writ.RunRunning, writ.RunSucceeded, writ.RunFailed, writ.RunCancelled, writ.RunExpired} {
		shown := api.RunState(state)
		if !shown.Valid() || shown.Ended() != state.Ended() || shown.Open() == state.Ended() {
			t.Errorf("%s: valid %v, ended %v, open %v", state, shown.Valid(), shown.Ended(), shown.Open())
		}
	}
	for _, state := range []writ.SubmissionState{writ.SubmissionWaiting, writ.SubmissionRefused, writ.SubmissionExpired} {
		shown := api.RunState(state)
		if !shown.Valid() || shown.Open() || shown.Ended() == (state == writ.SubmissionWaiting) {
			t.Errorf("%s: valid %v, ended %v, open %v", state, shown.Valid(), shown.Ended(), shown.Open())
		}
	}
}

func TestValuesKeepTheirIntegers(t *testing.T) {
	var v api.RunValues
	text := `{"run": {"output": {"n": 9007199254740993, "l": [1, {"x": -2}], "s": "1", "b": true, "z": null}}, "calls": [{"seq": 1, "values": {"size": 3}}]}`
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	want := api.Values{"n": int64(9007199254740993), "l": []any{int64(1), map[string]any{"x": int64(-2)}}, "s": "1", "b": true, "z": nil}
	if diff := cmp.Diff(want, v.Run.Output); diff != "" {
		t.Error(diff)
	}
	if got := v.Calls[0].Values["size"]; got != int64(3) || v.Calls[0].Seq != 1 {
		t.Errorf("call: %+v", v.Calls[0])
	}
	if err := writ.CheckValue(map[string]any(v.Run.Output)); err != nil {
		t.Error(err)
	}
	if err := json.Unmarshal([]byte(`{"x": [1.5]}`), &want); err == nil {
		t.Error("a fraction was read")
	}
}

func response(status int, kind, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status),
		Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(body)),
	}
}

func TestErrorsCrossTheWire(t *testing.T) {
	sent := writ.Errorf(writ.CodeRoleMissing, "alice may not do this").WithHint("ask a root operator")
	problem := api.ProblemOf(sent, "r-1")
	body, err := json.Marshal(problem)
	if err != nil {
		t.Fatal(err)
	}
	_, err = api.Answer[api.Run](response(problem.Status, api.ProblemType+"; charset=utf-8", string(body)), nil)
	if diff := cmp.Diff(sent, writ.AsError(err)); diff != "" {
		t.Error(diff)
	}
	secret := api.ProblemOf(errors.New("password is hunter2"), "r-2")
	if text, _ := json.Marshal(secret); bytes.Contains(text, []byte("hunter2")) || secret.Code != writ.CodeInternal {
		t.Errorf("internal error = %s", text)
	}
	if e := secret.Err(); !strings.Contains(e.Hint, "r-2") {
		t.Errorf("hint %q does not name the request", e.Hint)
	}
	run, err := api.Answer[api.Run](response(200, "application/json", `{"id": "x", "state": "waiting"}`), nil)
	if err != nil || run.ID != "x" || run.State != api.RunStateWaiting {
		t.Errorf("run %+v, %v", run, err)
	}
}

func TestForeignServerIsUnreachable(t *testing.T) {
	for name, call := range map[string]func() (api.Run, error){
		"no answer":     func() (api.Run, error) { return api.Answer[api.Run](nil, errors.New("connection refused")) },
		"a web page":    func() (api.Run, error) { return api.Answer[api.Run](response(200, "text/html", "<html>"), nil) },
		"its 404":       func() (api.Run, error) { return api.Answer[api.Run](response(404, "text/html", "<html>"), nil) },
		"empty problem": func() (api.Run, error) { return api.Answer[api.Run](response(500, api.ProblemType, "{}"), nil) },
	} {
		if _, err := call(); writ.CodeOf(err) != writ.CodeUnreachable {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func messages() []api.Message {
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	return []api.Message{
		{ID: 7, Reset: true},
		{ID: 8, Event: api.Event{ID: 8, Topic: api.TopicLog, Time: at, Log: &writ.LogLine{Text: "two\nlines: data: {}\n\n"}}},
		{ID: 9, Event: api.Event{ID: 9, Topic: api.TopicRun, Time: at, Run: &api.Run{State: api.RunStateRunning}}},
	}
}

func TestMessagesAreReadAsTheyWereWritten(t *testing.T) {
	var stream bytes.Buffer
	stream.WriteString(": hello\n\n")
	for _, m := range messages() {
		if _, err := m.WriteTo(&stream); err != nil {
			t.Fatal(err)
		}
		stream.WriteString(": heartbeat\n\n")
	}
	var got []api.Message
	var end error
	for m, err := range api.Messages(&stream) {
		if err != nil {
			end = err
			break
		}
		got = append(got, m)
	}
	if diff := cmp.Diff(messages(), got); diff != "" {
		t.Error(diff)
	}
	if writ.CodeOf(end) != writ.CodeUnreachable {
		t.Errorf("the end of the stream: %v", end)
	}
}

func FuzzMessages(f *testing.F) {
	for _, m := range messages() {
		var b bytes.Buffer
		_, _ = m.WriteTo(&b)
		f.Add(b.Bytes())
	}
	f.Add([]byte("data: {\ndata: }\n\nid: x\nevent:\n\n:\n\r\n"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		ended := 0
		for _, err := range api.Messages(bytes.NewReader(stream)) {
			if err != nil {
				ended++
			}
		}
		if ended != 1 {
			t.Errorf("a stream ended %d times", ended)
		}
	})
}

package coord

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"writ"
	"writ/coord/api"
)

// described compares each response with openapi.yaml: status, headers, media type and content. The client of every
// fixture has one, so each test that sends a request notices an undescribed response.
type described struct {
	http.RoundTripper
	t testing.TB
}

// RoundTrip sends the request, and fails the test if the description lacks the response.
func (d described) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := d.RoundTripper.RoundTrip(r)
	if err != nil {
		return answer, err
	}
	differs := func(err error) {
		if err != nil {
			d.t.Errorf("%s %s is answered with %s, which openapi.yaml describes otherwise: %v", r.Method, r.URL, answer.Status, err)
		}
	}
	if op := operationOf(r); op != nil {
		differs(compare(op, r, answer, differs))
	}
	return answer, nil
}

var description = sync.OnceValue(func() *openapi3.T {
	doc, err := openapi3.NewLoader().LoadFromData(api.Spec)
	if err != nil {
		panic(err)
	}
	return doc
})

// addresses holds the paths of the description as patterns.
var addresses = sync.OnceValue(func() map[string]*regexp.Regexp {
	all := map[string]*regexp.Regexp{}
	for path := range description().Paths.Map() {
		all[path] = regexp.MustCompile("^" + regexp.MustCompile(`\\\{[^}]*\\\}`).ReplaceAllString(regexp.QuoteMeta(path), "[^/]+") + "$")
	}
	return all
})

// operationOf returns the operation of a request, nil for a page or an unknown path.
func operationOf(r *http.Request) *openapi3.Operation {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for path, pattern := range addresses() {
		if pattern.MatchString(r.URL.EscapedPath()) {
			return description().Paths.Value(path).GetOperation(method)
		}
	}
	return nil
}

// operationHeaders lists the headers that each operation must describe. All other headers are common to all responses.
var operationHeaders = []string{"Location", "Upgrade", "Sec-WebSocket-Accept", "Sec-WebSocket-Version", "Link", "Etag", "Content-Disposition"}

// compare checks a response against the description of its operation. It reads the body, except for a stream, which the
// reader checks later.
func compare(op *openapi3.Operation, r *http.Request, answer *http.Response, differs func(error)) error {
	ref := op.Responses.Status(answer.StatusCode)
	if ref == nil {
		ref = op.Responses.Default()
	}
	if ref == nil {
		return errors.New("it has no such answer")
	}
	for _, name := range operationHeaders {
		header, is := ref.Value.Headers[name]
		if !is && len(answer.Header.Values(name)) > 0 {
			return fmt.Errorf("it has no header %s there", name)
		}
		if is && answer.Header.Get(name) != "" {
			if err := header.Value.Schema.Value.VisitJSON(valueOf(header.Value.Schema.Value, answer.Header.Get(name))); err != nil {
				return fmt.Errorf("header %s: %w", name, err)
			}
		}
	}
	// As the response Problem describes. The 503 of a failed readiness check has no problem body.
	later := answer.StatusCode == http.StatusTooManyRequests ||
		answer.StatusCode == http.StatusServiceUnavailable && answer.Header.Get("Content-Type") == api.ProblemType
	for name, want := range map[string]bool{"Retry-After": later, "WWW-Authenticate": answer.StatusCode == http.StatusUnauthorized} {
		if is := answer.Header.Get(name) != ""; is != want {
			return fmt.Errorf("header %s: %t", name, is)
		}
	}
	if r.Method == http.MethodHead || answer.StatusCode == http.StatusSwitchingProtocols {
		return nil
	}
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	content := ref.Value.Content[kind]
	switch {
	case content == nil && (kind != "" || len(ref.Value.Content) > 0):
		return fmt.Errorf("it does not have the media type %q there", kind)
	case kind == "text/event-stream":
		answer.Body = &describedStream{ReadCloser: answer.Body, differs: differs}
		return nil
	case !strings.HasSuffix(kind, "json"):
		return nil
	}
	body, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	answer.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), &cutOff{err}))
	if err != nil {
		return nil // the response was cut off, which its reader notices
	}
	return checkJSON(content.Schema.Value, body)
}

// cutOff is the end of a cut body.
type cutOff struct{ err error }

func (c *cutOff) Read([]byte) (int, error) {
	if c.err == nil {
		return 0, io.EOF
	}
	return 0, c.err
}

func checkJSON(schema *openapi3.Schema, text []byte) error {
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return err
	}
	return schema.VisitJSON(value)
}

// valueOf converts the text of a header or field to the type in its schema.
func valueOf(schema *openapi3.Schema, text string) any {
	if number, err := strconv.ParseFloat(text, 64); err == nil && schema.Type.Is("integer") {
		return number
	}
	return text
}

// describedStream compares the messages of a stream with the schema StreamMessage while they are read.
type describedStream struct {
	io.ReadCloser
	differs func(error)
	line    []byte
	message map[string]any
}

func (s *describedStream) Read(b []byte) (int, error) {
	n, err := s.ReadCloser.Read(b)
	for _, c := range b[:n] {
		if c != '\n' {
			s.line = append(s.line, c)
			continue
		}
		if err := s.end(string(s.line)); err != nil {
			s.differs(fmt.Errorf("line %q: %w", s.line, err))
		}
		s.line = s.line[:0]
	}
	return n, err
}

// end processes a line.
func (s *describedStream) end(line string) error {
	schema := description().Components.Schemas["StreamMessage"].Value
	name, text, _ := strings.Cut(line, ": ")
	switch property := schema.Properties[name]; {
	case line == "" && s.message == nil, line == "retry: 1000", strings.HasPrefix(line, ": "):
		return nil
	case line == "":
		message := s.message
		s.message = nil
		return schema.VisitJSON(message)
	case property == nil:
		return errors.New("unknown field")
	default:
		if s.message == nil {
			s.message = map[string]any{}
		}
		s.message[name] = valueOf(property.Value, text)
		if name == "data" {
			var value any
			err := json.Unmarshal([]byte(text), &value)
			s.message[name] = value
			return err
		}
		return nil
	}
}

// The test makes handshakes that are refused, and one that opens a link.
//
// Promise: Events, traces and the API: Each answer of the coordinator matches the API description in status, headers,
// media type and content.
// How: The client of the coordinator's tests compares each answer with openapi.yaml, including refused handshakes and
// stream messages.
// Also: TestListsOfAnEmptyClusterAreDescribed, TestTheExampleOfAStreamIsOne, TestUndescribedResponseIsNoticed.
func TestEveryAnswerToAHandshakeIsDescribed(t *testing.T) {
	p := start(t, nil)
	proper := http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"AAAAAAAAAAAAAAAAAAAAAA=="}}
	ask := func(header http.Header) (int, string) {
		t.Helper()
		answer, err := p.request(http.MethodGet, "/v1/link", func(r *http.Request) { r.Header = header })
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if answer.StatusCode == http.StatusSwitchingProtocols {
			return answer.StatusCode, ""
		}
		return p.read(answer, nil)
	}
	without := func(name, value string) http.Header {
		h := proper.Clone()
		h.Del(name)
		if value != "" {
			h.Set(name, value)
		}
		return h
	}
	for _, tt := range []struct {
		header http.Header
		want   int
	}{
		{nil, http.StatusUpgradeRequired},
		{without("Upgrade", "h2c"), http.StatusUpgradeRequired},
		{without("Sec-Websocket-Version", "12"), http.StatusBadRequest},
		{without("Sec-Websocket-Key", ""), http.StatusBadRequest},
		{without("Origin", "https://evil.example"), http.StatusForbidden},
		// Its own origin, under another name.
		{without("Origin", strings.Replace(p.PublicURL, "127.0.0.1", "localhost", 1)), http.StatusForbidden},
		{proper, http.StatusSwitchingProtocols},
	} {
		if status, body := ask(tt.header); status != tt.want {
			t.Errorf("%v: %d %s, want %d", tt.header, status, body, tt.want)
		}
	}
	p.links.Close()
	if status, body := ask(proper); status != http.StatusServiceUnavailable {
		t.Errorf("at the end: %d %s", status, body)
	}
}

// Lists of a cluster without datacenters are empty lists, as described, and not null.
func TestListsOfAnEmptyClusterAreDescribed(t *testing.T) {
	p := start(t, nil)
	next, err := firstRoster().Successor(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	next.Datacenters, next.Projects, next.Bindings = nil, nil, nil
	if _, err := p.AddRoster(t.Context(), signedRoster(t, next)); err != nil {
		t.Fatal(err)
	}
	lists := 0
	for path, item := range description().Paths.Map() {
		if item.Get == nil || strings.Contains(path, "{") || path == "/v1/link" || path == "/v1/events" {
			continue
		}
		if path == "/v1/roster/adoptions" {
			path += "?nonce=" + strings.Repeat("0", 2*writ.ClientNonce)
		}
		status, body := p.get(path)
		if status != http.StatusOK {
			t.Errorf("%s: %d %s", path, status, body)
		}
		if strings.Contains(body, `"items":[]`) {
			lists++
		}
	}
	if lists < 15 {
		t.Errorf("%d lists are empty", lists)
	}
}

// The example of a stream is valid: its messages are parsed and match the description.
func TestTheExampleOfAStreamIsOne(t *testing.T) {
	example, _ := description().Components.Responses["EventStream"].Value.Content["text/event-stream"].Example.(string)
	stream := &describedStream{ReadCloser: io.NopCloser(strings.NewReader(example)), differs: func(err error) { t.Error(err) }}
	var got []string
	for m, err := range api.Messages(stream) {
		if err != nil {
			break // end of the stream
		}
		got = append(got, map[bool]string{true: "reset"}[m.Reset]+string(m.Event.Topic))
	}
	if !slices.Equal(got, []string{"reset", "log"}) {
		t.Errorf("messages: %v", got)
	}
	events := description().Components.Schemas["StreamMessage"].Value.Properties["event"].Value.Enum
	if want := append(slices.Clone(description().Components.Schemas["Topic"].Value.Enum), "reset"); !slices.Equal(events, want) {
		t.Errorf("event names = %v, want %v", events, want)
	}
}

// The comparison itself notices undescribed responses.
func TestUndescribedResponseIsNoticed(t *testing.T) {
	answer := func(status int, kind, body string, header ...string) *http.Response {
		h := http.Header{"Content-Type": {kind}}
		for i := 0; i < len(header); i += 2 {
			h.Set(header[i], header[i+1])
		}
		return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body))}
	}
	const regions, problem = `{"items": [{"name": "eu", "datacenters": 1}]}`, `{"type": "t", "title": "t", "status": 404, "code": "NOT_FOUND", "retryable": false, "request_id": "r"}`
	for what, tt := range map[string]struct {
		path   string
		answer *http.Response
		fine   bool
	}{
		"what it has":        {"/v1/regions", answer(200, "application/json", regions), true},
		"a problem":          {"/v1/regions", answer(404, api.ProblemType, problem), true},
		"another media type": {"/v1/regions", answer(200, "text/html", regions), false},
		"plain text":         {"/v1/regions", answer(500, "text/plain", "sorry"), false},
		"no list":            {"/v1/regions", answer(200, "application/json", `{"items": null}`), false},
		"half a problem":     {"/v1/regions", answer(404, api.ProblemType, `{"code": "NOT_FOUND"}`), false},
		"another header":     {"/v1/regions", answer(200, "application/json", regions, "Location", "/v1/regions/eu"), false},
		"another status":     {"/v1/link", answer(200, "text/plain", "hello"), false},
	} {
		r, err := http.NewRequest(http.MethodGet, "http://127.0.0.1:1"+tt.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := compare(operationOf(r), r, tt.answer, func(error) {}); (err == nil) != tt.fine {
			t.Errorf("%s: %v", what, err)
		}
	}
	bad := 0
	stream := &describedStream{ReadCloser: io.NopCloser(strings.NewReader("retry: 5\n\nid: 1\nevent: weather\ndata: {}\n\n")), differs: func(error) { bad++ }}
	if _, err := io.ReadAll(stream); err != nil || bad != 2 {
		t.Errorf("%d faults of a stream, %v; want 2", bad, err)
	}
}

package nodes_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/supervisor/nodes"
)

// desk gives fixed answers and records the requests.
type desk struct {
	asked any
	err   error
}

func (d *desk) Greet(_ context.Context, hello nodes.Hello) (nodes.Proof, error) {
	d.asked = hello
	return nodes.Proof{Nonce: []byte("n"), Signature: []byte("s")}, d.err
}

func (d *desk) Admit(_ context.Context, claim nodes.Claim) (nodes.Welcome, error) {
	d.asked = claim
	return nodes.Welcome{Node: "id", Name: "n1", Admission: writ.AdmissionApproved, Epoch: 7}, d.err
}

func (d *desk) Rosters(_ context.Context, after int) ([][]byte, error) {
	d.asked = after
	return nil, d.err
}

func (d *desk) Payload(_ context.Context, digest writ.Digest) ([]byte, error) {
	d.asked = digest
	return []byte("signed\x00text"), d.err
}

func (d *desk) Account(_ context.Context, node writ.NodeID, _ []byte) ([]byte, error) {
	d.asked = node
	return []byte("signed"), d.err
}

func (d *desk) Fence(_ context.Context, node writ.NodeID, nonce []byte) ([]byte, error) {
	d.asked = []any{node, string(nonce)}
	return []byte("fence"), d.err
}

func (d *desk) Fenced(_ context.Context, node writ.NodeID, signed []byte) error {
	d.asked = []any{node, string(signed)}
	return d.err
}

func (d *desk) Standing(_ context.Context, node writ.NodeID, nonce []byte) ([]byte, error) {
	d.asked = []any{node, string(nonce)}
	return []byte("signed"), d.err
}

func serve(t *testing.T, d *desk) *nodes.Client {
	t.Helper()
	server := httptest.NewServer(nodes.Handler(d, nil, slog.New(slog.NewTextHandler(t.Output(), nil))))
	t.Cleanup(server.Close)
	return &nodes.Client{URL: server.URL}
}

func TestTheClientIsTheNodeAPIFromAfar(t *testing.T) {
	d := &desk{}
	c := serve(t, d)
	hello := nodes.Hello{Token: "t", Name: "n1", Key: []byte("key"), AgeKey: "age", Nonce: []byte("nonce"), Version: "v"}
	claim := nodes.Claim{Hello: hello, Nonce: []byte("n"), Proof: []byte("p"), Signature: []byte("s")}
	digest := writ.DigestOf([]byte("x"))
	for _, tt := range []struct {
		name string
		ask  func(b nodes.Backend) (any, error)
		want any
	}{
		{"Greet", func(b nodes.Backend) (any, error) { return b.Greet(t.Context(), hello) }, hello},
		{"Admit", func(b nodes.Backend) (any, error) { return b.Admit(t.Context(), claim) }, claim},
		{"Rosters", func(b nodes.Backend) (any, error) {
			rosters, err := b.Rosters(t.Context(), 3)
			return len(rosters), err
		}, 3},
		{"Payload", func(b nodes.Backend) (any, error) { return b.Payload(t.Context(), digest) }, digest},
		{"Account", func(b nodes.Backend) (any, error) { return b.Account(t.Context(), "0192-3", []byte("x")) }, writ.NodeID("0192-3")},
		{"Fence", func(b nodes.Backend) (any, error) { return b.Fence(t.Context(), "0192-3", []byte("nonce")) }, []any{writ.NodeID("0192-3"), "nonce"}},
		{"Fenced", func(b nodes.Backend) (any, error) { return nil, b.Fenced(t.Context(), "0192-3", []byte("said")) }, []any{writ.NodeID("0192-3"), "said"}},
		{"Standing", func(b nodes.Backend) (any, error) { return b.Standing(t.Context(), "0192-3", []byte("nonce")) }, []any{writ.NodeID("0192-3"), "nonce"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			direct, _ := tt.ask(&desk{})
			got, err := tt.ask(c)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(direct, got); diff != "" {
				t.Errorf("answer (-direct +from afar):\n%s", diff)
			}
			if diff := cmp.Diff(tt.want, d.asked); diff != "" {
				t.Errorf("question (-want +got):\n%s", diff)
			}
		})
	}
}

func TestErrorsKeepTheirMeaning(t *testing.T) {
	d := &desk{err: writ.Errorf(writ.CodeTokenSpent, "the token has admitted another").WithHint("make one")}
	c := serve(t, d)
	_, err := c.Admit(t.Context(), nodes.Claim{})
	e := writ.AsError(err)
	if e.Code != writ.CodeTokenSpent || e.Message != "the token has admitted another" || e.Hint != "make one" {
		t.Errorf("error = %+v", e)
	}
	d.err = errors.New("password in here")
	_, err = c.Payload(t.Context(), writ.Digest{})
	if writ.CodeOf(err) != writ.CodeInternal || strings.Contains(err.Error(), "password") {
		t.Errorf("an internal error crossed the wire as %v", err)
	}
	if hint := writ.AsError(err).Hint; !strings.Contains(hint, "under request ") {
		t.Errorf("the hint of an internal error is %q; it should lead to the log", hint)
	}
}

func TestCancelledCallerGetsItsOwnError(t *testing.T) {
	c := serve(t, &desk{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Rosters(ctx, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("Rosters = %v, want %v", err, context.Canceled)
	}
}

func TestAnAnswerWithoutEndIsNotRead(t *testing.T) {
	endless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for page := make([]byte, 1<<20); ; {
			if _, err := w.Write(page); err != nil {
				return
			}
		}
	}))
	defer endless.Close()
	got, err := (&nodes.Client{URL: endless.URL}).Payload(t.Context(), writ.Digest{})
	if writ.CodeOf(err) != writ.CodeUnreachable || got != nil {
		t.Errorf("Payload = %d bytes, %v", len(got), err)
	}
}

func TestBadRequestsAreProblems(t *testing.T) {
	c := serve(t, &desk{})
	for _, tt := range []struct {
		name, method, path, body string
		want                     int
	}{
		{"NoJSON", "POST", "/v1/join/hello", "{", 400},
		{"UnknownField", "POST", "/v1/join/hello", `{"admin": true}`, 400},
		{"TwoValues", "POST", "/v1/join/hello", `{} {}`, 400},
		{"TooLarge", "POST", "/v1/join/claim", `{"mac": "` + strings.Repeat("a", 20<<10) + `"}`, 413},
		{"NoDigest", "GET", "/v1/payloads/abc", "", 400},
		{"NoVersion", "GET", "/v1/rosters?after=-1", "", 400},
		{"NoSuchPath", "GET", "/v1/admin", "", 404},
		{"WrongMethod", "GET", "/v1/join/hello", "", 405},
	} {
		t.Run(tt.name, func(t *testing.T) {
			request, err := http.NewRequestWithContext(t.Context(), tt.method, c.URL+tt.path, strings.NewReader(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			body, _ := io.ReadAll(response.Body)
			if response.StatusCode != tt.want || response.Header.Get("Content-Type") != "application/problem+json" || !strings.Contains(string(body), `"request_id"`) {
				t.Errorf("%d %s", response.StatusCode, body)
			}
		})
	}
}

func TestAnythingElseAtTheAddressIsUnreachable(t *testing.T) {
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") }))
	defer page.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for _, url := range []string{page.URL, gone.URL} {
		if _, err := (&nodes.Client{URL: url}).Greet(t.Context(), nodes.Hello{}); writ.CodeOf(err) != writ.CodeUnreachable {
			t.Errorf("%s: %v", url, err)
		}
	}
	if _, err := (&nodes.Client{URL: "::"}).Greet(t.Context(), nodes.Hello{}); writ.CodeOf(err) != writ.CodeUsage {
		t.Errorf("a bad address: %v", err)
	}
}

// A join makes the supervisor sign each time, and every refusal used to be a log line.
//
// Promise: Load and attackers: A flood from one address makes the node API sign or verify at most 50 joins a second
// and answer 1,000 requests.
// How: An allowance per address, with a burst of twice that; refusals are one line every ten seconds per code.
// Also: TestRepeatedLineIsLoggedOncePerInterval.
func TestAFloodOfRequestsIsBoundedAndLoggedOnce(t *testing.T) {
	var log strings.Builder
	api := nodes.Handler(&desk{err: writ.Errorf(writ.CodeNotFound, "not here")}, nil, slog.New(slog.NewTextHandler(&log, nil)))
	codes := map[int]int{}
	ask := func(method, path, remote string) {
		r := httptest.NewRequest(method, path, strings.NewReader("{}"))
		r.RemoteAddr = remote
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		codes[w.Code]++
		if w.Code == http.StatusTooManyRequests && w.Header().Get("Retry-After") == "" {
			t.Error("the answer has no Retry-After header")
		}
	}
	for range 1000 {
		ask(http.MethodPost, "/v1/join/hello", "192.0.2.1:1")
	}
	if codes[http.StatusNotFound] < 100 || codes[http.StatusNotFound] > 900 || codes[http.StatusTooManyRequests] < 100 {
		t.Errorf("answers to a thousand hellos at once: %v", codes)
	}
	clear(codes)
	ask(http.MethodPost, "/v1/join/hello", "192.0.2.2:1")
	ask(http.MethodGet, "/v1/rosters", "192.0.2.2:1")
	if codes[http.StatusNotFound] != 2 {
		t.Errorf("others are answered %v", codes)
	}
	if lines := strings.Count(log.String(), "\n"); lines > 10 {
		t.Errorf("%d lines in the log", lines)
	}
}

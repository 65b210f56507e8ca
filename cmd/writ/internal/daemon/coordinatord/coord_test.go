package coordinatord

import (
	"context"
	"crypto/ed25519"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/daemon"
	"writ/cmd/writ/internal/daemon/processes"
	"writ/identity"
	"writ/identity/sshsig"
)

// serving returns a function that runs a coordinator with these settings.
func serving(c Config) func(ctx context.Context, ready func()) error {
	return processes.Build(func(ready func()) (*Coordinator, error) {
		c.Ready = ready
		return New(c)
	})
}

// refusal runs a coordinator that must not serve, and returns its error.
func refusal(t *testing.T, c Config) error {
	t.Helper()
	return serving(c)(t.Context(), func() { t.Error("the coordinator reported ready") })
}

// newCoord returns a coordinator of a new cluster that listens at an address.
func newCoord(t *testing.T, data, address string) Config {
	t.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	roster, signed, err := client.Found(&client.Key{Signer: sshsig.NewSigner(private)}, "alice", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	listener, err := daemon.Listen(address)
	if err != nil {
		t.Fatal(err)
	}
	return Config{Data: data, Listener: listener, Rosters: [][]byte{signed}, Cluster: roster.Cluster, Version: "test", Log: slog.New(slog.DiscardHandler)}
}

func TestSecondCoordinatorOfOneDirectoryIsRefused(t *testing.T) {
	data := t.TempDir()
	p, _ := processes.New(t.Context())
	if err := p.Start(t.Context(), "first", serving(newCoord(t, data, "127.0.0.1:0"))); err != nil {
		t.Fatal(err)
	}
	second := newCoord(t, data, "127.0.0.1:0")
	if err := refusal(t, second); writ.CodeOf(err) != writ.CodeConflict {
		t.Errorf("%v, want CONFLICT", err)
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}

// A program that waits for ready would otherwise continue, and fail or wait without the coordinator.
func TestCoordinatorIsNotReadyWhereItMayNotListen(t *testing.T) {
	c := newCoord(t, t.TempDir(), "0.0.0.0:0")
	if err := refusal(t, c); writ.CodeOf(err) != writ.CodeListenRefused {
		t.Errorf("%v, want LISTEN_REFUSED", err)
	}
}

// A coordinator that was created on loopback has a first address without TLS. If that were its own address, cookies
// could be sent in plain text.
func TestACoordinatorIsKnownByAnAddressWithTLS(t *testing.T) {
	for want, urls := range map[string][]string{
		"https://10.77.0.2:7440": {"http://127.0.0.1:7440", "https://10.77.0.2:7440", "https://front:7440"},
		"http://127.0.0.1:7440":  {"http://127.0.0.1:7440"},
	} {
		if got := firstAddress(&identity.Coordinator{URLs: urls}); got != want {
			t.Errorf("%s instead of %s", got, want)
		}
	}
}

// Promise: Load and attackers: An operator sets the limit of a coordinator's event streams and live pages.
// How: `writ coord --max-streams`, 256 by default and at most 2,048.
func TestEventStreamsAreLimitedBySetting(t *testing.T) {
	c := newCoord(t, t.TempDir(), "127.0.0.1:0")
	c.MaxStreams = 3
	p, _ := processes.New(t.Context())
	if err := p.Start(t.Context(), "coordinator", serving(c)); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	}()
	open := func() *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+c.Listener.Addr().String()+"/v1/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { answer.Body.Close() })
		return answer
	}
	for n := range c.MaxStreams {
		if answer := open(); answer.StatusCode != http.StatusOK {
			t.Errorf("stream %d: %s", n+1, answer.Status)
		}
	}
	last := open()
	if last.StatusCode != http.StatusServiceUnavailable { // the body of a stream has no end
		t.Fatalf("one more stream: %s", last.Status)
	}
	if body, err := io.ReadAll(last.Body); err != nil || !strings.Contains(string(body), string(writ.CodeTooManyWatchers)) {
		t.Errorf("one more stream: %s, %v", body, err)
	}
}

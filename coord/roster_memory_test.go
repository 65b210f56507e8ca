package coord

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"writ/coord/api"
	"writ/identity"
	"writ/identity/sshsig"
	"writ/internal/test/testenv"
	"writ/ledger/sqlstore"
	"writ/supervisor/nodes"
)

const (
	manyVersions = 10_000
	manyCallers  = 200
	maxGrowth    = 64 << 20 // bytes of memory for all callers together
)

// TestManyStrangersCostBoundedMemory calls the routes without a login of a coordinator and a node API from another
// process, from 200 addresses at once. The roster has 10,000 versions, and the callers request the path from each. The
// memory of the process grows by 64 MiB at most. The test prints the duration of an honest change of the roster before
// and meanwhile.
func TestManyStrangersCostBoundedMemory(t *testing.T) {
	testenv.Nightly(t, "TestStrangersShareOneRosterPage of package coord, TestCallersShareARosterPage of package supervisor/nodes")
	store, err := sqlstore.Open(t.Context(), t.TempDir()+"/ledger.db")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	p := startNamed(t, func(c *Config) { c.Ledger = store })
	p.addVersions(manyVersions)
	token := p.token("alice")
	node := httptest.NewServer(nodes.Handler(rosterBackend{from: p.Coordinator}, rosterBackend{from: p.Coordinator}, slog.New(slog.DiscardHandler)))
	defer node.Close()
	quiet := p.commandTime(token)

	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	answered, end := callFromElsewhere(t, p.PublicURL, node.URL)
	var most uint64
	for working := true; working; {
		select {
		case <-answered:
			working = false
		case <-time.After(10 * time.Millisecond): // memory sampling interval; no other code waits for it
			runtime.ReadMemStats(&now)
			most = max(most, now.HeapInuse+now.StackInuse)
		}
	}
	start := before.HeapInuse + before.StackInuse
	t.Logf("%d callers: memory from %d to %d MiB", manyCallers, start>>20, most>>20)
	if most > start+maxGrowth {
		t.Errorf("the memory may grow by %d MiB", maxGrowth>>20)
	}
	loaded := p.commandTime(token)
	end()
	t.Logf("a command took %s, and %s meanwhile", quiet, loaded)
}

// addVersions adds n versions of the roster. The coordinator gets the versions that lead to the newest one.
func (p *fixture) addVersions(n int) {
	p.t.Helper()
	newest, err := p.rosters.Newest(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	have, texts := newest.Version, map[int][]byte{}
	for range n {
		signed := signedRoster(p.t, successor(p.t, newest, nothing))
		if newest, err = identity.VerifyRoster(newest, signed, time.Time{}); err != nil {
			p.t.Fatal(err)
		}
		texts[newest.Version] = signed
	}
	path, err := newest.Chain().PathWithin(have, 1<<30, func(version int) ([]byte, error) { return texts[version], nil })
	if err != nil {
		p.t.Fatal(err)
	}
	for _, link := range path {
		if _, err := p.AddRoster(p.t.Context(), link); err != nil {
			p.t.Fatal(err)
		}
	}
	if now, err := p.rosters.Newest(p.t.Context()); err != nil || now.Version != have+n {
		p.t.Fatalf("the coordinator has version %d, %v", now.Version, err)
	}
}

// commandTime returns the median duration of several roster changes by a logged-in person.
func (p *fixture) commandTime(token string) time.Duration {
	var took []time.Duration
	for range 5 {
		roster, err := p.rosters.Newest(p.t.Context())
		if err != nil {
			p.t.Fatal(err)
		}
		next := signedRoster(p.t, successor(p.t, roster, nothing))
		began := time.Now()
		response, err := p.request(http.MethodPost, "/v1/roster", func(r *http.Request) {
			r.Header.Set("Authorization", "Bearer "+token)
			r.Header.Set("Content-Type", api.SignedType)
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(next)), int64(len(next))
		})
		if status, body := p.read(response, err); status != http.StatusOK {
			p.t.Fatalf("status %d, %s", status, body)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// callersVar is the variable with the addresses for TestCallers.
const callersVar = "WRIT_TEST_CALLERS"

// callFromElsewhere starts another process that calls servers. answered is closed after each caller had some answers.
// end ends the process.
func callFromElsewhere(t *testing.T, servers ...string) (answered <-chan struct{}, end func()) {
	t.Helper()
	// The callers get little of the processor while the servers need it, as if they were on other machines.
	other := exec.Command(testenv.Need(t, "nice"), "-n", "19", os.Args[0], "-test.run=^TestCallers$")
	other.Env = append(os.Environ(), callersVar+"="+strings.Join(servers, " "))
	other.Stderr = os.Stderr
	in, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "answers") {
				t.Log(lines.Text())
				break
			}
		}
		close(done) // also if the process ended early, which end reports
		_, _ = io.Copy(io.Discard, out)
	})
	end = sync.OnceFunc(func() {
		_ = in.Close()
		reading.Wait()
		if err := other.Wait(); err != nil {
			t.Errorf("the process of the callers: %v", err)
		}
	})
	t.Cleanup(end)
	return done, end
}

// TestCallers is the other process of TestManyStrangersCostBoundedMemory.
func TestCallers(t *testing.T) {
	servers := strings.Fields(os.Getenv(callersVar))
	if len(servers) == 0 {
		t.Skip("it is a part of TestManyStrangersCostBoundedMemory")
	}
	ctx, stop := context.WithCancel(t.Context())
	forged, err := signer("mallory").Sign(sshsig.RosterNamespace, []byte("a"))
	if err != nil {
		t.Fatal(err)
	}
	roster := append([]byte("writ-roster: v4\n"), bytes.Repeat(forged, 500<<10/len(forged))...)
	var callers sync.WaitGroup
	var answers, refused atomic.Int64
	began := time.Now()
	for n := range manyCallers {
		dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(n+1))}}
		client := &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext}}
		callers.Go(func() {
			defer client.CloseIdleConnections()
			for i := n; ctx.Err() == nil; i += 37 {
				request := strangersRequest(ctx, servers, i, roster)
				response, err := client.Do(request)
				if err != nil {
					continue // the server may close the connection of a large request
				}
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
				if response.StatusCode == http.StatusTooManyRequests {
					refused.Add(1)
				}
				if answers.Add(1) == 10*manyCallers {
					fmt.Printf("answers: %d in %v, %d refused\n", answers.Load(), time.Since(began), refused.Load())
				}
			}
		})
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	stop()
	callers.Wait()
}

// strangersRequest returns the i-th request of strangers: usually for pages of the roster, and for each other route
// without a login.
func strangersRequest(ctx context.Context, servers []string, i int, roster []byte) *http.Request {
	method, path, body := http.MethodGet, fmt.Sprintf("%s/v1/roster?after=%d", servers[0], i%manyVersions), []byte(nil)
	switch i % 10 {
	case 1, 3, 5:
		path = fmt.Sprintf("%s/v1/rosters?after=%d", servers[1], i%manyVersions)
	case 7:
		method, path, body = http.MethodPost, servers[0]+"/v1/roster", roster
	case 9:
		others := []string{"/openapi.yaml", "/login", "/healthz", "/readyz", "/static/dashboard.css"}
		path = servers[0] + others[i/10%len(others)]
	}
	request, err := http.NewRequestWithContext(ctx, method, path, bytes.NewReader(body))
	if err != nil {
		panic(err) // the test uses only its own addresses
	}
	request.Header.Set("Content-Type", api.SignedType)
	return request
}

// rosterBackend serves the rosters of a coordinator like a supervisor.
type rosterBackend struct {
	nodes.Backend
	nodes.Members
	from *Coordinator
}

func (b rosterBackend) Rosters(ctx context.Context, after int) ([][]byte, error) {
	return b.from.rosters.Current().Chain().Path(after, func(version int) ([]byte, error) { return b.from.Ledger.Roster(ctx, version) })
}

func (b rosterBackend) RosterPage(after int) (start, newest int) {
	roster := b.from.rosters.Current()
	return roster.Chain().PageStart(after), roster.Version
}

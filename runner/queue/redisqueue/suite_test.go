package redisqueue

import (
	"context"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"writ/internal/test/testenv"
	"writ/runner/queue"
	"writ/runner/queue/embedded"
	"writ/runner/queue/queuetest"
)

func TestMain(m *testing.M) {
	Silence()
	goleak.VerifyTestMain(m)
}

func TestRedisPassesTheConformanceSuite(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	queuetest.Run(t, func(t *testing.T) queuetest.Transport { return newTransport(t, server.URL) })
}

func TestEmbeddedRedisPassesTheConformanceSuite(t *testing.T) {
	t.Parallel()
	queuetest.Run(t, func(t *testing.T) queuetest.Transport { return newTransport(t, startEmbedded(t)) })
}

// startEmbedded runs an embedded Redis until the test ends.
func startEmbedded(t testing.TB) (redisURL string) {
	t.Helper()
	r := embedded.New("127.0.0.1:0")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
	})
	redisURL, err := r.URL(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return redisURL
}

// transport is a Redis behind connections that can be cut, one for each process.
type transport struct {
	url   string // without a line
	host  string
	lines map[queue.Queue]*line
}

func newTransport(t *testing.T, redisURL string) *transport {
	u, err := url.Parse(redisURL)
	if err != nil {
		t.Fatal(err)
	}
	tr := &transport{url: redisURL, host: u.Host, lines: map[queue.Queue]*line{}}
	tr.Flush(t)
	return tr
}

func (tr *transport) Open(t *testing.T) queue.Queue {
	t.Helper()
	l := &line{to: tr.host}
	l.open(t, "127.0.0.1:0")
	q, err := Open("redis://" + l.addr + "/0")
	if err != nil {
		t.Fatal(err)
	}
	tr.lines[q] = l
	t.Cleanup(func() {
		_ = q.Close()
		l.cut()
	})
	return q
}

func (tr *transport) Flush(t *testing.T) {
	t.Helper()
	if err := client(t, tr.url).FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
}

func (tr *transport) Cut(*testing.T) {
	for _, l := range tr.lines {
		l.cut()
	}
}

func (tr *transport) Restore(t *testing.T) {
	for _, l := range tr.lines {
		l.open(t, l.addr)
	}
}

func (tr *transport) Kill(_ *testing.T, q queue.Queue) {
	tr.lines[q].cut()
	delete(tr.lines, q)
}

// client returns a plain client for inspection.
func client(t testing.TB, redisURL string) *redis.Client {
	t.Helper()
	options, err := redis.ParseURL(redisURL)
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(options)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// line forwards connections until it is cut.
type line struct {
	to, addr string
	listener net.Listener
	running  sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool // nil when cut
}

func (l *line) open(t *testing.T, addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	l.listener, l.addr = listener, listener.Addr().String()
	l.mu.Lock()
	l.conns = map[net.Conn]bool{}
	l.mu.Unlock()
	l.running.Go(func() {
		for {
			here, err := listener.Accept()
			if err != nil {
				return
			}
			there, err := net.Dial("tcp", l.to)
			if err != nil {
				here.Close()
				continue
			}
			l.join(here, there)
		}
	})
}

func (l *line) join(here, there net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns == nil {
		here.Close()
		there.Close()
		return
	}
	l.conns[here], l.conns[there] = true, true
	forward := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		to.Close()
		from.Close()
	}
	l.running.Go(func() { forward(here, there) })
	l.running.Go(func() { forward(there, here) })
}

func (l *line) cut() {
	l.listener.Close()
	l.mu.Lock()
	for c := range l.conns {
		c.Close()
	}
	l.conns = nil
	l.mu.Unlock()
	l.running.Wait()
}

func TestURLIsCheckedWithoutTellingItsPassword(t *testing.T) {
	for _, bad := range []string{"localhost:6379", "http://host", "redis://user:hunter2@host:port/0", "redis://user:hunter2@host/x", "",
		"redis://:hunter2/b@127.0.0.1:6379/0", "redis://127:12/hunter2@127.0.0.1:6379", "rediss://u:12?hunter2=@host", "unix://:hunter2/b@/run/redis.sock"} {
		q, err := Open(bad)
		if err == nil {
			_ = q.Close()
			t.Errorf("Open(%q) takes it", bad)
			continue
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("Open(%q) reveals the password: %v", bad, err)
		}
	}
	for _, good := range []string{"redis://127.0.0.1:1/0", "rediss://u:p@host:1/2", "unix:///run/redis.sock?db=1"} {
		q, err := Open(good) // does not connect
		if err != nil {
			t.Errorf("Open(%q) = %v", good, err)
			continue
		}
		_ = q.Close()
	}
}

package redisd

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"writ/internal/test/testenv"
	"writ/runner/queue/redisqueue"
)

func TestRedisServerKeepsItsDataAndItsPassword(t *testing.T) {
	path, dir := testenv.Need(t, "redis-server"), t.TempDir()+"/a \"quoted\" place\u00a0\u200b"
	for round := range 2 {
		r, err := newRedisServer(path, dir, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		stop, done := runRedis(t, r)
		options, err := redis.ParseURL(r.URL())
		if err != nil {
			t.Fatal(err)
		}
		c := redis.NewClient(options)
		if round == 0 {
			if err := c.Do(t.Context(), "CONFIG", "SET", "appendfsync", "always").Err(); err != nil {
				t.Fatal(err)
			}
			if err := c.Set(t.Context(), "k", "v", 0).Err(); err != nil {
				t.Fatal(err)
			}
		} else if v, err := c.Get(t.Context(), "k").Result(); v != "v" {
			t.Errorf("after a restart k = %q, %v", v, err)
		}
		stranger := redis.NewClient(&redis.Options{Addr: options.Addr})
		if err := stranger.Ping(t.Context()).Err(); err == nil || !strings.Contains(err.Error(), "NOAUTH") {
			t.Errorf("without the password: %v, want NOAUTH", err)
		}
		c.Close()
		stranger.Close()
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestRedisServerThatDoesNotStartIsAnError(t *testing.T) {
	r, err := newRedisServer("/bin/false", t.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t.Context(), func(int) { t.Error("ready") }); err == nil {
		t.Error("no error")
	}
}

// TestRedisServerReplacesATakenPort opens a connection from the port that the server was to get.
func TestRedisServerReplacesATakenPort(t *testing.T) {
	r, err := newRedisServer(testenv.Need(t, "redis-server"), t.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	to, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: r.port}}
	c, err := from.DialContext(t.Context(), "tcp", to.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	taken := r.port
	stop, done := runRedis(t, r)
	if r.port == taken {
		t.Errorf("it serves on the taken port %d", taken)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// runRedis returns when the server is ready.
func runRedis(t *testing.T, r *redisServer) (stop func(), done chan error) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- r.Run(ctx, func(int) { close(ready) }) }()
	select {
	case <-ready:
	case err := <-done:
		t.Fatal(err)
	case <-time.After(redisStart):
		t.Fatal("it is not ready")
	}
	return stop, done
}

func TestRedisSocketMayHaveALongPath(t *testing.T) {
	path, dir := testenv.Need(t, "redis-server"), t.TempDir()+"/"+strings.Repeat("d", 120)
	r, err := newRedisServer(path, dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	r.port = 0
	stop, done := runRedis(t, r)
	q, err := redisqueue.Server{URL: r.URL()}.Open()
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := q.Examine(t.Context()); err != nil {
		t.Error(err)
	}
	if err := q.Close(); err != nil {
		t.Error(err)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

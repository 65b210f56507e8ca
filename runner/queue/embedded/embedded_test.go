package embedded_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"writ/runner/queue/embedded"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEmbeddedRedisLivesAsLongAsRun(t *testing.T) {
	r := embedded.New("127.0.0.1:0")
	early, stop := context.WithCancel(t.Context())
	stop()
	if _, err := r.URL(early); err == nil {
		t.Error("it has a URL before Run")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	url, err := r.URL(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	options, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(options)
	defer c.Close()
	if err := c.Set(t.Context(), "short", "1", time.Millisecond).Err(); err != nil {
		t.Fatal(err)
	}
	for c.Exists(t.Context(), "short").Val() == 1 && t.Context().Err() == nil { // ends only if keys expire
	}
	if err := c.Set(t.Context(), "long", "1", time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	r.Flush()
	if n := c.DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("%d keys after Flush", n)
	}

	second := embedded.New(options.Addr)
	if err := second.Run(t.Context()); err == nil {
		t.Error("a second server listens on the same port")
	}
	if _, err := second.URL(t.Context()); err == nil {
		t.Error("a server without a port has a URL")
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run = %v", err)
	}
	if err := c.Ping(t.Context()).Err(); err == nil {
		t.Error("it answers after Run has returned")
	}
}

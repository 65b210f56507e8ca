package supervisord

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"writ"
	"writ/cmd/writ/internal/config"
	"writ/identity/pki"
	"writ/internal/sleep"
	"writ/runner/queue/redisqueue"
)

// redisTLS makes the Redis of a datacenter listen for nodes, with a certificate that the supervisor issues and renews.
// Redis reads the certificate from files in a directory that both processes can use.
type redisTLS struct {
	redis  *redisqueue.Queue
	issuer *pki.Issuer
	listen redisqueue.Listening
	log    *slog.Logger
	wake   chan struct{} // has an element if the certificate must be renewed at once

	mu    sync.Mutex
	from  time.Time // start of the validity of chain
	renew time.Time // time of the next renewal; zero means at once
	chain [][]byte  // last chain of Redis, nil before the first
}

// again requests an immediate renewal.
func (t *redisTLS) again() {
	t.mu.Lock()
	t.renew = time.Time{}
	t.mu.Unlock()
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// shown returns the last chain of Redis, or nil.
func (t *redisTLS) shown() [][]byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.chain
}

// isDue reports whether the certificate must be renewed. It must if its renewal is due, or if the clock was set back to
// a time before its validity.
func (t *redisTLS) isDue(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !now.Before(t.renew) || now.Before(t.from)
}

func (t *redisTLS) due() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.renew
}

// The files in the directory.
const (
	redisCertificate = "redis.pem"
	redisKey         = "redis.key"
)

// lookAtRedisEvery is the interval of checks whether Redis still listens. A restarted Redis has lost this setting.
const lookAtRedisEvery = 5 * time.Second

func newRedisTLS(
	redis *redisqueue.Queue, issuer *pki.Issuer, address, dir string, log *slog.Logger,
) (*redisTLS, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, writ.Errorf(writ.CodeUsage, "cannot make the directory for the certificate of Redis: %v", err).
			WithHint("--redis-tls-dir names it")
	}
	return &redisTLS{
		redis: redis, issuer: issuer, log: log, wake: make(chan struct{}, 1),
		listen: redisqueue.Listening{
			Address: address, Certificate: filepath.Join(dir, redisCertificate), Key: filepath.Join(dir, redisKey),
		},
	}, nil
}

// run keeps Redis listening until ctx ends.
func (t *redisTLS) run(ctx context.Context) error {
	failed := false
	tick := time.NewTicker(lookAtRedisEvery)
	defer tick.Stop()
	for {
		listening, err := t.ensure(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && writ.CodeOf(err) == writ.CodeUsage:
			return err
		case err != nil && !failed:
			t.log.WarnContext(ctx, "Redis does not listen for nodes; trying again", "address", t.listen.Address,
				"err", err, "hint", writ.AsError(err).Hint)
		case listening:
			t.log.InfoContext(ctx, "Redis listens for nodes", "address", t.listen.Address,
				"renew", t.due().UTC().Format(time.DateOnly))
		}
		failed = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-t.wake:
		}
	}
}

// ensure renews a due certificate, and makes Redis listen if it does not or must read a new certificate. It reports
// whether it has renewed the certificate or made Redis listen.
func (t *redisTLS) ensure(ctx context.Context) (bool, error) {
	if !t.isDue(time.Now()) {
		if listens, err := t.redis.Listens(ctx, t.listen); listens || err != nil {
			return false, err
		}
		return true, t.redis.Listen(ctx, t.listen)
	}
	select { // later requests cause another round
	case <-t.wake:
	default:
	}
	chain, err := t.issue()
	if err != nil {
		return false, err
	}
	if err := t.redis.Listen(ctx, t.listen); err != nil {
		return false, err // the renewal stays due until Redis has read the certificate
	}
	described, err := t.issuer.Describe(chain)
	if err != nil {
		return false, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.chain, t.from = chain, described.From.Add(-pki.Backdate)
	if len(t.wake) == 0 {
		t.renew = described.Renew
	}
	return true, nil
}

// issue writes a new certificate and returns its chain. It writes the key first, so that Redis rejects a pair that does
// not match.
func (t *redisTLS) issue() ([][]byte, error) {
	host, _, err := net.SplitHostPort(t.listen.Address)
	if err != nil {
		return nil, writ.Errorf(writ.CodeUsage, "%q is not an address for Redis to listen on", t.listen.Address).
			WithHint("it looks like 10.0.0.2:6379")
	}
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the key of Redis: %w", err)
	}
	name := t.issuer.Name
	name.Role = pki.Redis
	chain, err := t.issuer.Issue(name, public, host)
	if err != nil {
		return nil, err
	}
	text, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("write the key of Redis: %w", err)
	}
	var certificates bytes.Buffer
	for _, der := range chain {
		_ = pem.Encode(&certificates, &pem.Block{Type: "CERTIFICATE", Bytes: der}) // a buffer accepts every write
	}
	if err := writeShared(t.listen.Key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text})); err != nil {
		return nil, err
	}
	if err := writeShared(t.listen.Certificate, certificates.Bytes()); err != nil {
		return nil, err
	}
	return chain, nil
}

// writeShared replaces a file that the group of its directory may read.
func writeShared(path string, text []byte) error {
	if err := config.ReplaceFile(path, 0o640, text); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// examineRedis warns once about unsuitable settings of Redis, as soon as it answers.
func examineRedis(ctx context.Context, redis *redisqueue.Queue, log *slog.Logger) error {
	for {
		version, found, err := redis.Examine(ctx)
		if err == nil {
			for _, f := range found {
				log.WarnContext(ctx, "the settings of Redis are unsuitable: "+f.What, "version", version, "fix", f.Fix)
			}
			return nil
		}
		if sleep.For(ctx, time.Second) != nil {
			return nil
		}
	}
}

package daemon

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
	"writ/identity/pki"
	"writ/runner/queue/redisqueue"
)

// redisTLS has the Redis of a datacenter listen for nodes, with a certificate that its supervisor issues and renews. Redis reads the certificate
// from files in a directory that both can use.
type redisTLS struct {
	redis  *redisqueue.Queue
	issuer *pki.Issuer
	listen redisqueue.Listening
	log    *slog.Logger
	wake   chan struct{} // holds one if another certificate is due at once

	mu    sync.Mutex
	renew time.Time // when another certificate is due; zero before the first, and if it is due at once
	chain [][]byte  // that Redis was given last, nil before
}

// again has another certificate issued at once.
func (t *redisTLS) again() {
	t.mu.Lock()
	t.renew = time.Time{}
	t.mu.Unlock()
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// shown is the chain that Redis was given last, nil if it was given none.
func (t *redisTLS) shown() [][]byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.chain
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

// lookAtRedisEvery is how often Redis is asked whether it still listens: it forgets that when it starts again.
const lookAtRedisEvery = 5 * time.Second

func newRedisTLS(redis *redisqueue.Queue, issuer *pki.Issuer, address, dir string, log *slog.Logger) (*redisTLS, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, writ.Errorf(writ.CodeUsage, "cannot make the directory for the certificate of Redis: %v", err).WithHint("--redis-tls-dir names it")
	}
	return &redisTLS{
		redis: redis, issuer: issuer, log: log, wake: make(chan struct{}, 1),
		listen: redisqueue.Listening{Address: address, Certificate: filepath.Join(dir, redisCertificate), Key: filepath.Join(dir, redisKey)},
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
			t.log.WarnContext(ctx, "Redis does not listen for nodes; trying again", "address", t.listen.Address, "err", err, "hint", writ.AsError(err).Hint)
		case listening:
			t.log.InfoContext(ctx, "Redis listens for nodes", "address", t.listen.Address, "renew", t.due().UTC().Format(time.DateOnly))
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

// ensure renews the certificate if it is time, and has Redis listen if it does not or has to read another one. It reports whether it did.
func (t *redisTLS) ensure(ctx context.Context) (bool, error) {
	if time.Now().Before(t.due()) {
		if listens, err := t.redis.Listens(ctx, t.listen); listens || err != nil {
			return false, err
		}
		return true, t.redis.Listen(ctx, t.listen)
	}
	select { // what asks for another one from here on gets it in the next round
	case <-t.wake:
	default:
	}
	chain, err := t.issue()
	if err != nil {
		return false, err
	}
	if err := t.redis.Listen(ctx, t.listen); err != nil {
		return false, err // until Redis has read it, another one is due
	}
	described, err := t.issuer.Describe(chain)
	if err != nil {
		return false, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.chain = chain
	if len(t.wake) == 0 {
		t.renew = described.Renew
	}
	return true, nil
}

// issue writes another certificate, and returns its chain. The key comes first, so that a pair that does not fit is one that Redis refuses to read.
func (t *redisTLS) issue() ([][]byte, error) {
	host, _, err := net.SplitHostPort(t.listen.Address)
	if err != nil {
		return nil, writ.Errorf(writ.CodeUsage, "%q is no address at which Redis could listen", t.listen.Address).WithHint("it looks like 10.0.0.2:6379")
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
		_ = pem.Encode(&certificates, &pem.Block{Type: "CERTIFICATE", Bytes: der}) // a buffer takes everything
	}
	if err := writeShared(t.listen.Key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text})); err != nil {
		return nil, err
	}
	if err := writeShared(t.listen.Certificate, certificates.Bytes()); err != nil {
		return nil, err
	}
	return chain, nil
}

// writeShared replaces a file, which the group of its directory may read.
//
//failpoint:none every start writes the certificate of Redis again
func writeShared(path string, text []byte) error {
	next := path + ".new"
	_ = os.Remove(next) // of a process that was killed
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o640)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	err = f.Chmod(0o640) // the umask may have taken that from the group
	if err == nil {
		_, err = f.Write(text)
	}
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

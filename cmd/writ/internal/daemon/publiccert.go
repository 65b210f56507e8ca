package daemon

import (
	"context"
	"crypto/tls"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"writ"
)

// lookEvery is the minimum interval between two checks of the certificate's files.
const lookEvery = 5 * time.Second

// publicCertificate is a server's certificate of an authority that browsers or machines trust. Another program renews
// its files, which are read again after a change. If they are invalid then, the last valid certificate stays. Set the
// upper fields, then call open.
type publicCertificate struct {
	certFile, keyFile string
	hosts             []string // host names of the server
	what              string   // for messages: "the certificate for browsers"
	log               *slog.Logger
	now               func() time.Time

	current atomic.Pointer[tls.Certificate]
	looking sync.Mutex // held while files are read; handshakes do not wait for it
	next    time.Time  // time of the next check
	seen    [2]os.FileInfo
	fault   string // error of the last check, "" for none
}

// open reads the certificate. An invalid one is a USAGE error.
func (p *publicCertificate) open(ctx context.Context) error {
	p.looking.Lock()
	defer p.looking.Unlock()
	p.next, p.seen = p.now().Add(lookEvery), p.stat()
	if err := p.load(ctx); err != nil {
		return err
	}
	return nil
}

// get returns the newest valid certificate.
func (p *publicCertificate) get() (*tls.Certificate, error) {
	p.look()
	return p.current.Load(), nil
}

// times returns the validity period of the certificate.
func (p *publicCertificate) times() (from, until time.Time) {
	p.look()
	leaf := p.current.Load().Leaf
	return leaf.NotBefore, leaf.NotAfter
}

// look reads the files again if they have changed or were invalid. A concurrent caller uses the current certificate.
func (p *publicCertificate) look() {
	if !p.looking.TryLock() {
		return
	}
	defer p.looking.Unlock()
	if p.now().Before(p.next) {
		return
	}
	p.next = p.now().Add(lookEvery)
	files := p.stat()
	if p.fault == "" && slices.EqualFunc(files[:], p.seen[:], sameFile) {
		return
	}
	p.seen = files // before reading: later changes are found by the next check
	ctx := context.Background()
	err := p.load(ctx)
	if err == nil {
		p.fault = ""
		p.log.InfoContext(ctx, p.what+" was read again", "file", p.certFile, "expires", p.current.Load().Leaf.NotAfter)
		return
	}
	if p.fault != err.Error() {
		p.fault = err.Error()
		p.log.WarnContext(ctx, "the files of "+p.what+" have changed and cannot be used: the last certificate is shown on",
			"err", err,
			"expires", p.current.Load().Leaf.NotAfter, "fix", err.Hint)
	}
}

// load reads both files and uses them if they match.
func (p *publicCertificate) load(ctx context.Context) *writ.Error {
	certificate, err := os.ReadFile(p.certFile)
	if err != nil {
		return p.unreadable(err)
	}
	key, err := os.ReadFile(p.keyFile)
	if err != nil {
		return p.unreadable(err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return writ.Errorf(writ.CodeUsage, "the certificate in %s and the key in %s are no pair: %s", p.certFile,
			p.keyFile, strings.TrimPrefix(err.Error(), "tls: ")).
			WithHint("--tls-cert has a certificate with its chain, and --tls-key has its key, both in PEM, as fullchain.pem and privkey.pem of certbot")
	}
	p.current.Store(&pair)
	p.warn(ctx, &pair)
	return nil
}

func (p *publicCertificate) unreadable(err error) *writ.Error {
	return writ.Errorf(writ.CodeUsage, "cannot read %s: %v", p.what, err).
		WithHint("let the user of this process read the files of --tls-cert and --tls-key")
}

// warn logs problems of a usable certificate.
func (p *publicCertificate) warn(ctx context.Context, pair *tls.Certificate) {
	if info, err := os.Stat(p.keyFile); err == nil && info.Mode().Perm()&0o037 != 0 {
		p.log.WarnContext(ctx, "others on this machine can use the key of "+p.what, "file", p.keyFile,
			"mode", info.Mode().Perm(), "fix", "chmod 0640 "+p.keyFile)
	}
	named := func(host string) bool { return pair.Leaf.VerifyHostname(host) == nil }
	if !slices.ContainsFunc(p.hosts, named) {
		p.log.WarnContext(ctx, p.what+" is for another host, so that it is refused", "file", p.certFile,
			"names", pair.Leaf.DNSNames, "hosts", p.hosts,
			"fix", "use a certificate for the host in the address of this server")
	}
}

// stat returns the metadata of the files, nil for a missing file.
func (p *publicCertificate) stat() (files [2]os.FileInfo) {
	for i, path := range []string{p.certFile, p.keyFile} {
		if info, err := os.Stat(path); err == nil { // load returns the error
			files[i] = info
		}
	}
	return files
}

// sameFile reports whether a file was neither written nor replaced.
func sameFile(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

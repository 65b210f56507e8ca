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

// lookEvery is how often the files of a certificate are looked at, at most.
const lookEvery = 5 * time.Second

// publicCertificate is the certificate of a server that others know by its authority, as browsers do. Another program renews it: when its files change, they are read again.
// If they are no pair then, the last good one stays. Fill in the upper fields, then call open.
type publicCertificate struct {
	certFile, keyFile string
	hosts             []string // by which the server can be reached
	what              string   // "the certificate for browsers", in texts
	log               *slog.Logger
	now               func() time.Time

	current atomic.Pointer[tls.Certificate]
	looking sync.Mutex // held while files are read; handshakes do not wait for it
	next    time.Time  // when to look again
	seen    [2]os.FileInfo
	fault   string // why the files of the last look could not be used
}

// open reads the certificate. It returns USAGE if that cannot be used.
func (p *publicCertificate) open(ctx context.Context) error {
	p.looking.Lock()
	defer p.looking.Unlock()
	p.next, p.seen = p.now().Add(lookEvery), p.stat()
	if err := p.load(ctx); err != nil {
		return err
	}
	return nil
}

// get returns the newest certificate that can be used.
func (p *publicCertificate) get() (*tls.Certificate, error) {
	p.look()
	return p.current.Load(), nil
}

// times returns from when and until when it can be used.
func (p *publicCertificate) times() (from, until time.Time) {
	p.look()
	leaf := p.current.Load().Leaf
	return leaf.NotBefore, leaf.NotAfter
}

// look reads the files again if they have changed, or could not be used before. Who comes while another one looks goes on with what there is.
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
	p.seen = files // before they are read: what changes meanwhile is read at the next look
	ctx := context.Background()
	err := p.load(ctx)
	if err == nil {
		p.fault = ""
		p.log.InfoContext(ctx, p.what+" was read again", "file", p.certFile, "expires", p.current.Load().Leaf.NotAfter)
		return
	}
	if p.fault != err.Error() {
		p.fault = err.Error()
		p.log.WarnContext(ctx, "the files of "+p.what+" have changed and cannot be used: the last certificate is shown on", "err", err,
			"expires", p.current.Load().Leaf.NotAfter, "fix", err.Hint)
	}
}

// load reads both files and takes them if they are a pair.
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
		return writ.Errorf(writ.CodeUsage, "the certificate in %s and the key in %s are no pair: %s", p.certFile, p.keyFile, strings.TrimPrefix(err.Error(), "tls: ")).
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

// warn logs what is wrong with a pair that works.
func (p *publicCertificate) warn(ctx context.Context, pair *tls.Certificate) {
	if info, err := os.Stat(p.keyFile); err == nil && info.Mode().Perm()&0o037 != 0 {
		p.log.WarnContext(ctx, "others on this machine can use the key of "+p.what, "file", p.keyFile, "mode", info.Mode().Perm(), "fix", "chmod 0640 "+p.keyFile)
	}
	named := func(host string) bool { return pair.Leaf.VerifyHostname(host) == nil }
	if !slices.ContainsFunc(p.hosts, named) {
		p.log.WarnContext(ctx, p.what+" is for another host, so that it is refused", "file", p.certFile, "names", pair.Leaf.DNSNames, "hosts", p.hosts,
			"fix", "use a certificate for the host in the address of this server")
	}
}

// stat returns what there is to see of the files without reading them, nil for a file that is not there.
func (p *publicCertificate) stat() (files [2]os.FileInfo) {
	for i, path := range []string{p.certFile, p.keyFile} {
		if info, err := os.Stat(path); err == nil { // the error shows when the file is read
			files[i] = info
		}
	}
	return files
}

// sameFile reports whether a file has not been written or replaced.
func sameFile(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

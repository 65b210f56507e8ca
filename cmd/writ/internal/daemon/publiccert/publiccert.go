// Package publiccert serves a certificate of a public authority from files, and reads renewed files without a restart.
// It keeps the last valid pair while a renewal is broken.
package publiccert

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/url"
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

// Certificate is a server's certificate of an authority that browsers or machines trust. Another program renews its
// files, which are read again after a change. If the changed files are invalid, the last valid certificate stays in
// use. Set the exported fields, then call Open.
type Certificate struct {
	CertFile, KeyFile string
	Hosts             []string // host names of the server
	What              string   // for messages: "the certificate for browsers"
	Log               *slog.Logger
	Now               func() time.Time

	current atomic.Pointer[tls.Certificate]
	looking sync.Mutex // held while files are read; handshakes do not wait for it
	next    time.Time  // time of the next check
	seen    [2]os.FileInfo
	fault   string // error of the last check, "" for none
}

// Open reads the certificate. An invalid one is a USAGE error.
func (p *Certificate) Open(ctx context.Context) error {
	p.looking.Lock()
	defer p.looking.Unlock()
	p.next, p.seen = p.Now().Add(lookEvery), p.stat()
	if err := p.load(ctx); err != nil {
		return err
	}
	return nil
}

// Get returns the newest valid certificate.
func (p *Certificate) Get() (*tls.Certificate, error) {
	p.look()
	return p.current.Load(), nil
}

// Times returns the validity period of the certificate.
func (p *Certificate) Times() (from, until time.Time) {
	p.look()
	leaf := p.current.Load().Leaf
	return leaf.NotBefore, leaf.NotAfter
}

// look reads the files again if they have changed or were invalid. A concurrent caller uses the current certificate.
func (p *Certificate) look() {
	if !p.looking.TryLock() {
		return
	}
	defer p.looking.Unlock()
	if p.Now().Before(p.next) {
		return
	}
	p.next = p.Now().Add(lookEvery)
	files := p.stat()
	if p.fault == "" && slices.EqualFunc(files[:], p.seen[:], sameFile) {
		return
	}
	p.seen = files // before reading: later changes are found by the next check
	ctx := context.Background()
	err := p.load(ctx)
	if err == nil {
		p.fault = ""
		p.Log.InfoContext(ctx, p.What+" was read again", "file", p.CertFile, "expires", p.current.Load().Leaf.NotAfter)
		return
	}
	if p.fault != err.Error() {
		p.fault = err.Error()
		p.Log.WarnContext(ctx, "the files of "+p.What+" have changed and cannot be used: the server keeps the previous certificate",
			"err", err,
			"expires", p.current.Load().Leaf.NotAfter, "fix", err.Hint)
	}
}

// load reads both files and uses them if they match.
func (p *Certificate) load(ctx context.Context) *writ.Error {
	certificate, err := os.ReadFile(p.CertFile)
	if err != nil {
		return p.unreadable(err)
	}
	key, err := os.ReadFile(p.KeyFile)
	if err != nil {
		return p.unreadable(err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return writ.Errorf(writ.CodeUsage, "the certificate in %s and the key in %s do not belong together: %s", p.CertFile,
			p.KeyFile, strings.TrimPrefix(err.Error(), "tls: ")).
			WithHint("--tls-cert has a certificate with its chain, and --tls-key has its key, both in PEM, as fullchain.pem and privkey.pem of certbot")
	}
	p.current.Store(&pair)
	p.warn(ctx, &pair)
	return nil
}

func (p *Certificate) unreadable(err error) *writ.Error {
	return writ.Errorf(writ.CodeUsage, "cannot read %s: %v", p.What, err).
		WithHint("make the files of --tls-cert and --tls-key readable for the user of this process")
}

// warn logs problems of a usable certificate.
func (p *Certificate) warn(ctx context.Context, pair *tls.Certificate) {
	if info, err := os.Stat(p.KeyFile); err == nil && info.Mode().Perm()&0o037 != 0 {
		p.Log.WarnContext(ctx, "others on this machine can use the key of "+p.What, "file", p.KeyFile,
			"mode", info.Mode().Perm(), "fix", "chmod 0640 "+p.KeyFile)
	}
	named := func(host string) bool { return pair.Leaf.VerifyHostname(host) == nil }
	if !slices.ContainsFunc(p.Hosts, named) {
		p.Log.WarnContext(ctx, p.What+" is for another host, so that it is refused", "file", p.CertFile,
			"names", pair.Leaf.DNSNames, "hosts", p.Hosts,
			"fix", "use a certificate for the host in the address of this server")
	}
}

// stat returns the metadata of the files, nil for a missing file.
func (p *Certificate) stat() (files [2]os.FileInfo) {
	for i, path := range []string{p.CertFile, p.KeyFile} {
		if info, err := os.Stat(path); err == nil { // load returns the error
			files[i] = info
		}
	}
	return files
}

// sameFile reports whether a file was neither written nor replaced between the metadata a and b.
func sameFile(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

// HostsOf returns the hosts of URLs and host names.
func HostsOf(all []string) (hosts []string) {
	for _, name := range all {
		if u, err := url.Parse(name); err == nil && u.Host != "" {
			name = u.Hostname()
		}
		hosts = append(hosts, name)
	}
	return hosts
}

// Package bootd runs a boot server as a process: its listeners with TLS, the settings of single machines, and its
// reports to the supervisor. The protocol is in package bootserver.
package bootd

import (
	"context"
	"crypto/tls"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"writ"
	"writ/cmd/writ/internal/daemon/publiccert"
	"writ/efi/bootserver"
)

// Config holds the settings of a boot server.
type Config struct {
	Machines     net.Listener
	Operators    net.Listener // for the list of machines, without login and TLS
	Image        []byte
	Words        []string         // the command line of the kernel
	Assigned     *AssignmentsFile // settings of single machines; nil for none
	URL          string           // base URL for machines; "" means the address that they request
	TLSCert      string           // file with a certificate that machines trust, "" for none
	TLSKey       string           // file with its key
	AllowedHosts []string
	Reports      *Reports // to the supervisor of the datacenter; nil for none
	Log          *slog.Logger
	Ready        func() // called just before the server accepts requests; nil for no call
}

// Server is a boot server as a process.
type Server struct{ Config }

// New returns a boot server with these settings. It opens no sockets or files.
func New(c Config) (*Server, error) {
	at, err := url.Parse(c.URL)
	switch {
	case err != nil:
		return nil, writ.Errorf(writ.CodeUsage, "--url is not an address")
	case (c.TLSCert == "") != (c.TLSKey == ""):
		return nil, writ.Errorf(writ.CodeUsage, "--tls-cert and --tls-key belong together, and one of them is missing").
			WithHint("give both: a certificate with its chain, and its key")
	case c.TLSCert != "" && at.Scheme != "https":
		return nil, writ.Errorf(writ.CodeUsage, "--tls-cert needs a --url with the name in the certificate").
			WithHint("--url https://HOST:PORT")
	}
	return &Server{c}, nil
}

// Run serves until ctx ends, and then returns nil.
func (b *Server) Run(ctx context.Context) error {
	defer b.Machines.Close()
	defer b.Operators.Close()
	secure, err := b.certify(ctx)
	if err != nil {
		return err
	}
	config := bootserver.Config{
		Image: b.Image, Words: b.Words, URL: b.URL, TLS: secure, Names: b.AllowedHosts, Log: b.Log,
	}
	if b.Assigned != nil {
		config.Assigned = b.Assigned.Read
		if _, err := os.Stat(b.Assigned.Path); errors.Is(err, fs.ErrNotExist) {
			b.Log.InfoContext(ctx, "no machine has individual settings, because the file does not exist yet",
				"file", b.Assigned.Path)
		}
	}
	server, err := bootserver.New(config)
	if err != nil {
		return err
	}
	if secure == nil {
		b.Log.InfoContext(ctx, "machines are served without TLS: others in their network can give them another image")
	}
	b.Log.InfoContext(ctx, "boot server is listening", "address", b.Machines.Addr().String(), "url", b.URL,
		"list", "http://"+b.Operators.Addr().String(), "image", server.Digest())
	if b.Ready != nil {
		b.Ready()
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return server.Serve(ctx, b.Machines, b.Operators) })
	if b.Reports != nil {
		group.Go(func() error { b.Reports.Run(ctx, server.List); return nil })
	}
	return group.Wait()
}

// certify returns the TLS configuration, nil without a certificate.
func (b *Server) certify(ctx context.Context) (*tls.Config, error) {
	if b.TLSCert == "" {
		return nil, nil
	}
	public := &publiccert.Certificate{
		CertFile: b.TLSCert, KeyFile: b.TLSKey, Hosts: publiccert.HostsOf(slices.Concat([]string{b.URL}, b.AllowedHosts)),
		What: "the certificate for machines", Log: b.Log, Now: time.Now,
	}
	if err := public.Open(ctx); err != nil {
		return nil, err
	}
	// Many versions of iPXE support no version of TLS above 1.2.
	return &tls.Config{
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return public.Get() },
		MinVersion:     tls.VersionTLS12,
	}, nil
}

// Package ociregistry runs a registry of container images for tests: the registry of go-containerregistry, behind TLS,
// with accounts and with faults. It must not know the clients.
package ociregistry

import (
	"archive/tar"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Server is a registry on loopback.
type Server struct {
	Host        string            // with the port
	Certificate *x509.Certificate // nil without TLS
	Authorities *x509.CertPool    // with the certificate

	server *httptest.Server
	mu     sync.Mutex
	before func(http.ResponseWriter, *http.Request) bool
	seen   []string
}

// Start starts a registry with TLS that ends with the test.
func Start(t testing.TB) *Server {
	t.Helper()
	return start(t, (*httptest.Server).StartTLS)
}

// StartPlain starts a registry without TLS that ends with the test.
func StartPlain(t testing.TB) *Server {
	t.Helper()
	return start(t, (*httptest.Server).Start)
}

// StartOldHTTP starts a registry with TLS and without HTTP/2 that ends with the test.
func StartOldHTTP(t testing.TB) *Server {
	t.Helper()
	return start(t, func(s *httptest.Server) { s.EnableHTTP2 = false; s.StartTLS() })
}

func start(t testing.TB, how func(*httptest.Server)) *Server {
	s := &Server{}
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	s.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.seen = append(s.seen, r.Method+" "+r.URL.Path)
		before := s.before
		s.mu.Unlock()
		if before == nil || !before(w, r) {
			inner.ServeHTTP(w, r)
		}
	}))
	s.server.EnableHTTP2 = true
	s.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	how(s.server)
	t.Cleanup(s.server.Close)
	s.Host = s.server.Listener.Addr().String()
	if s.Certificate = s.server.Certificate(); s.Certificate != nil {
		s.Authorities = x509.NewCertPool()
		s.Authorities.AddCert(s.Certificate)
	}
	return s
}

// SwitchProtocol answers a request with the status 101, and keeps the connection open until the client closes it. The
// server must not use HTTP/2.
func SwitchProtocol(w http.ResponseWriter) {
	c, b, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	_, _ = b.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n")
	_ = b.Flush()
	go func() {
		defer c.Close()
		_, _ = c.Read(make([]byte, 1))
	}()
}

// Transport returns a transport with HTTP/1.1 that trusts the registry. Uploads over HTTP/2 to a server in the same
// process sometimes hang forever.
func (s *Server) Transport() http.RoundTripper {
	return &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.Authorities, MinVersion: tls.VersionTLS12}}
}

// LogIn writes an account for the registry into a directory with Docker's configuration.
func (s *Server) LogIn(t testing.TB, dir, user, password string) {
	t.Helper()
	auth := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	text, err := json.Marshal(map[string]any{"auths": map[string]any{s.Host: map[string]string{"auth": auth}}})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "config.json"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Before sets a function that may answer requests in place of the registry. The function returns true if it has
// answered.
func (s *Server) Before(answer func(http.ResponseWriter, *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = answer
}

// Seen returns the requests since the last call, as "GET /v2/…".
func (s *Server) Seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.seen
	s.seen = nil
	return seen
}

// Push stores an image under a name with a tag, "library/web:1", and returns its digest.
func (s *Server) Push(t testing.TB, to string, image v1.Image) string {
	t.Helper()
	digest, err := image.Digest()
	if err == nil {
		err = remote.Write(s.tag(t, to), image, remote.WithTransport(s.Transport()))
	}
	if err != nil {
		t.Fatalf("push %s: %v", to, err)
	}
	return digest.String()
}

// PushIndex stores an index with its images, and returns its digest.
func (s *Server) PushIndex(t testing.TB, to string, index v1.ImageIndex) string {
	t.Helper()
	digest, err := index.Digest()
	if err == nil {
		err = remote.WriteIndex(s.tag(t, to), index, remote.WithTransport(s.Transport()))
	}
	if err != nil {
		t.Fatalf("push %s: %v", to, err)
	}
	return digest.String()
}

func (s *Server) tag(t testing.TB, to string) name.Tag {
	tag, err := name.NewTag(s.Host + "/" + to)
	if err != nil {
		t.Fatal(err)
	}
	return tag
}

// FromArchive returns the first image of an OCI archive.
func FromArchive(t testing.TB, path string) v1.Image {
	t.Helper()
	dir := t.TempDir()
	if err := untar(path, dir); err != nil {
		t.Fatal(err)
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	image, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// untar unpacks the regular files of an archive that a test has made.
func untar(archive, dir string) error {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer file.Close()
	for r := tar.NewReader(file); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if header.Typeflag != tar.TypeReg || strings.Contains(header.Name, "..") {
			continue
		}
		to := filepath.Join(dir, filepath.FromSlash(header.Name))
		text, err := io.ReadAll(r)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(to), 0o700)
		}
		if err == nil {
			err = os.WriteFile(to, text, 0o600)
		}
		if err != nil {
			return err
		}
	}
}

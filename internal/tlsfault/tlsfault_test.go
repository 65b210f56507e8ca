package tlsfault

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func TestOldServerIsRecognised(t *testing.T) {
	t.Parallel()
	for name, handshake := range map[string]func(*testing.T) error{
		"Alert":       againstServer(&tls.Config{MaxVersion: tls.VersionTLS12}, nil),
		"OldVersion":  againstOldHello,
		"NewServer":   againstServer(&tls.Config{}, nil),
		"Certificate": againstServer(&tls.Config{ClientAuth: tls.RequireAnyClientCert}, nil),
		"Refused":     func(*testing.T) error { return errors.New("connection refused") },
	} {
		err := handshake(t)
		if want := name == "Alert" || name == "OldVersion"; OldProtocol(err) != want {
			t.Errorf("%s: %v is an old protocol: %v, want %v", name, err, !want, want)
		}
		if want := name == "Alert" || name == "Certificate"; Rejected(fmt.Errorf("dial: %w", err)) != want {
			t.Errorf("%s: %v is a rejection: %v, want %v", name, err, !want, want)
		}
	}
}

func TestExpiredCertificateIsRecognised(t *testing.T) {
	t.Parallel()
	later := func() time.Time { return time.Now().AddDate(100, 0, 0) }
	if err := againstServer(&tls.Config{}, later)(t); !Expired(err) {
		t.Errorf("%v is not recognised", err)
	}
	if err := (x509.CertificateInvalidError{Reason: x509.NotAuthorizedToSign}); Expired(err) {
		t.Errorf("%v is taken for an expiry", err)
	}
}

// againstServer returns a function that connects to a server and reads its first answer. TLS 1.3 servers check the
// certificate of a client only after its handshake.
func againstServer(config *tls.Config, clock func() time.Time) func(*testing.T) error {
	return func(t *testing.T) error {
		server := httptest.NewUnstartedServer(http.NotFoundHandler())
		server.TLS = config
		server.StartTLS()
		t.Cleanup(server.Close)
		transport := server.Client().Transport.(*http.Transport)
		transport.TLSClientConfig.MinVersion, transport.TLSClientConfig.Time = tls.VersionTLS13, clock
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := transport.RoundTrip(request)
		if err == nil {
			response.Body.Close()
		}
		return err
	}
}

// againstOldHello connects to a server that ignores the versions of the client and selects TLS 1.2, as servers do that
// predate TLS 1.3.
func againstOldHello(t *testing.T) error {
	here, there := net.Pipe()
	t.Cleanup(func() { here.Close(); there.Close() })
	go func() {
		_, _ = there.Read(make([]byte, 1<<14))
		hello := append([]byte{3, 3}, make([]byte, 32)...) // version and random
		hello = append(hello, 0, 0xc0, 0x2f, 0)            // session, cipher suite, compression
		hello = append([]byte{2, 0, 0, byte(len(hello))}, hello...)
		_, _ = there.Write(append([]byte{22, 3, 3, 0, byte(len(hello))}, hello...))
		_, _ = there.Read(make([]byte, 1<<14)) // the alert of the client
	}()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	return tls.Client(here, &tls.Config{ServerName: "localhost", MinVersion: tls.VersionTLS13}).HandshakeContext(ctx)
}

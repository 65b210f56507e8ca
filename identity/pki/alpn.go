package pki

import (
	"crypto/tls"
	"slices"
)

// Marker is what clients of writ offer by ALPN before HTTP, so that a server can tell them from browsers and other tools. No server chooses it. It
// proves nothing and opens nothing: a client that offers it gets a certificate that only a roster verifies, and every other client may offer it too.
const Marker = "writ-v1"

// offered is what clients of writ offer.
func offered() []string { return []string{Marker, "http/1.1"} }

// WithPublic returns a server that shows another certificate to clients that do not offer Marker: one that browsers know. Clients of writ get the same
// certificate as before.
func WithPublic(server *tls.Config, public func() (*tls.Certificate, error)) *tls.Config {
	both := server.Clone()
	both.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if slices.Contains(hello.SupportedProtos, Marker) {
			return server.GetCertificate(hello)
		}
		return public()
	}
	return both
}

package pki

import (
	"crypto/tls"
	"slices"
)

// Marker is the ALPN protocol that clients of writ offer before HTTP, so that servers can distinguish them from
// browsers and other tools. Servers never select it. It grants no rights, and any client may offer it: a client that
// does gets a certificate that only a roster verifies.
const Marker = "writ-v1"

// offered lists the protocols that clients of writ offer.
func offered() []string { return []string{Marker, "http/1.1"} }

// WithPublic returns a server configuration with another certificate, known to browsers, for clients that do not offer
// Marker. Clients of writ still get the certificate of server.
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

package pki

import (
	"crypto/tls"
	"slices"
)

// Marker is the ALPN protocol that clients of writ offer before HTTP, so that servers can distinguish them from
// browsers and other tools. Servers never select it. It grants no rights, and any client may offer it: a client that
// offers it gets a certificate that can be verified only with a roster.
const Marker = "writ-v1"

// offered lists the protocols that clients of writ offer.
func offered() []string { return []string{Marker, "http/1.1"} }

// WithPublic returns a copy of server that presents the certificate of public, which browsers trust, to clients that do
// not offer Marker. Clients of writ still get the certificate of server.
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

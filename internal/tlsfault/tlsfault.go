// Package tlsfault recognises causes of failed TLS connections that crypto/tls does not export as a type. It does not
// explain them: the remedy depends on the server.
package tlsfault

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
)

// protocolVersion is the alert of a server that supports none of the offered versions (RFC 8446, section 6.2).
const protocolVersion = tls.AlertError(70)

// Rejected reports whether the other side ended the connection with an alert, for example because the certificate of
// this side is missing or untrusted.
func Rejected(err error) bool {
	_, rejected := alert(err)
	return rejected
}

// OldProtocol reports whether the other side supports no version of TLS that this side accepts.
func OldProtocol(err error) bool {
	if text, ok := alert(err); ok {
		return text == protocolVersion.Error()
	}
	// A server that predates TLS 1.3 sends no alert: it selects an old version. crypto/tls reports this only as text.
	return err != nil && strings.Contains(err.Error(), "tls: server selected unsupported protocol version")
}

// Expired reports whether a certificate of the other side has expired or is not valid yet.
func Expired(err error) bool {
	invalid, ok := errors.AsType[x509.CertificateInvalidError](err)
	return ok && invalid.Reason == x509.Expired
}

// alert returns the text of the alert that the other side sent. The type of such an alert is not exported, but its text
// equals the text of the tls.AlertError with the same number.
func alert(err error) (text string, ok bool) {
	failed, ok := errors.AsType[*net.OpError](err)
	if !ok || failed.Op != "remote error" {
		return "", false
	}
	return failed.Err.Error(), true
}

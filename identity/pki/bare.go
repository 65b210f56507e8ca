package pki

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"time"
)

// Bare returns a certificate that contains only a key. It is for a node, whose key the peer knows from the datacenter's
// records. It needs no authority and never expires, so a node that was off for a year is still recognized.
func Bare(key ed25519.PrivateKey) (*tls.Certificate, error) {
	// RFC 5280 defines this NotAfter as "no expiry".
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0),
		NotAfter: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make a certificate of a key: %w", err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// BareKey returns the key of a peer with a certificate as Bare creates it, or nil for other chains. TLS has verified
// that the peer has the private key.
func BareKey(chain []*x509.Certificate) ed25519.PublicKey {
	if len(chain) != 1 || len(chain[0].URIs) > 0 {
		return nil
	}
	key, _ := chain[0].PublicKey.(ed25519.PublicKey)
	return key
}

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

// Bare returns a certificate that says nothing but its key: for a node, whose key the other side knows from the datacenter's records. It needs no
// authority and has no end, so that a node that was off for a year is known at once.
func Bare(key ed25519.PrivateKey) (*tls.Certificate, error) {
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)} // RFC 5280: without an end
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make a certificate of a key: %w", err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// BareKey returns the key of the peer that showed a certificate as Bare makes them, nil if it showed another one or none. TLS has made sure that the
// peer has the key.
func BareKey(chain []*x509.Certificate) ed25519.PublicKey {
	if len(chain) != 1 || len(chain[0].URIs) > 0 {
		return nil
	}
	key, _ := chain[0].PublicKey.(ed25519.PublicKey)
	return key
}

package daemontest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority issues certificates as public authorities do.
type Authority struct {
	T                 *testing.T
	key               *ecdsa.PrivateKey
	root              *x509.Certificate
	Dir               string
	CertFile, KeyFile string // of the last pair that it issued
	made              int64
}

// NewAuthority returns an authority whose files are in a directory of the test.
func NewAuthority(t *testing.T) *Authority {
	t.Helper()
	dir := t.TempDir()
	a := &Authority{T: t, key: webKey(t), Dir: dir, CertFile: filepath.Join(dir, "fullchain.pem"), KeyFile: filepath.Join(dir, "privkey.pem")}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.root, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return a
}

func webKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// Issue writes another certificate with its key, and returns the serial number of the certificate.
func (a *Authority) Issue(until time.Time, hosts ...string) int64 {
	a.T.Helper()
	a.made++
	key := webKey(a.T)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1000 + a.made), NotBefore: until.Add(-90 * 24 * time.Hour), NotAfter: until, DNSNames: hosts,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.root, key.Public(), a.key)
	if err != nil {
		a.T.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.T.Fatal(err)
	}
	a.Write(a.KeyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text}))
	a.Write(a.CertFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return 1000 + a.made
}

// Write replaces a file, as programs that renew certificates do.
func (a *Authority) Write(path string, text []byte) {
	a.T.Helper()
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		a.T.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		a.T.Fatal(err)
	}
}

func (a *Authority) Read(path string) []byte {
	a.T.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		a.T.Fatal(err)
	}
	return text
}

// Browser returns the TLS configuration of a browser, which trusts the authority and no roster.
func (a *Authority) Browser(host string) *tls.Config {
	authorities := x509.NewCertPool()
	authorities.AddCert(a.root)
	return &tls.Config{RootCAs: authorities, ServerName: host}
}

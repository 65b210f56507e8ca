package registry

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"golang.org/x/crypto/bcrypt"

	"writ"
	"writ/internal/test/ociregistry"
	"writ/internal/test/testenv"
)

// identity is a key with its own certificate for 127.0.0.1.
type identity struct {
	key         *ecdsa.PrivateKey
	certificate *x509.Certificate
}

func newIdentity(t *testing.T) identity {
	key := must[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	text := must[[]byte](t)(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))
	return identity{key, must[*x509.Certificate](t)(x509.ParseCertificate(text))}
}

// write writes the certificate and the key into files.
func (i identity) write(t *testing.T, dir string) (certificate, key string) {
	certificate, key = filepath.Join(dir, "certificate.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{
		certificate: {Type: "CERTIFICATE", Bytes: i.certificate.Raw},
		key:         {Type: "EC PRIVATE KEY", Bytes: must[[]byte](t)(x509.MarshalECPrivateKey(i.key))},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certificate, key
}

func (i identity) pool() *x509.CertPool {
	all := x509.NewCertPool()
	all.AddCert(i.certificate)
	return all
}

// token returns a token for the registry with the permitted actions on the repository team/web.
func (i identity) token(t *testing.T, actions ...string) string {
	part := func(v any) string {
		return base64.RawURLEncoding.EncodeToString(must[[]byte](t)(json.Marshal(v)))
	}
	now := time.Now()
	text := part(map[string]any{"typ": "JWT", "alg": "ES256", "x5c": []string{base64.StdEncoding.EncodeToString(i.certificate.Raw)}}) + "." +
		part(map[string]any{
			"iss": "test", "sub": "ci", "aud": "registry", "exp": now.Add(time.Hour).Unix(), "nbf": now.Add(-time.Minute).Unix(), "iat": now.Unix(),
			"jti": "1", "access": []any{map[string]any{"type": "repository", "name": "team/web", "actions": append([]string{}, actions...)}},
		})
	sum := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, i.key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	signature := append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// distribution is the registry of Debian's package, with TLS.
type distribution struct{ host string }

// startDistribution starts the registry with a configuration of its accounts, until the test ends.
func startDistribution(t *testing.T, i identity, accounts string) distribution {
	t.Helper()
	program, dir := testenv.Need(t, "docker-registry"), t.TempDir()
	certificate, key := i.write(t, dir)
	l := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	host := l.Addr().String()
	_ = l.Close()
	config := filepath.Join(dir, "config.yml")
	text := fmt.Sprintf("version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: %s}}\nhttp: {addr: %s, tls: {certificate: %s, key: %s}}\n%s",
		filepath.Join(dir, "data"), host, certificate, key, strings.ReplaceAll(accounts, "CERTIFICATE", certificate))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd := exec.Command(program, "serve", config)
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the registry printed:\n%s", &said)
		}
	})
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("tcp", host)
		if err == nil {
			_ = c.Close()
			return distribution{host}
		}
		if time.Now().After(end) {
			t.Fatal("the registry does not listen")
		}
	}
}

// header adds the credentials of a request.
type header struct {
	http.RoundTripper
	text string
}

func (h header) RoundTrip(q *http.Request) (*http.Response, error) {
	q = q.Clone(q.Context())
	q.Header.Set("Authorization", h.text)
	return h.RoundTripper.RoundTrip(q)
}

// try pushes an image with these credentials, pulls it with different accounts, and compares the codes.
func (d distribution) try(t *testing.T, credentials string, roots *x509.CertPool, want map[Login]writ.Code, registries ...string) {
	t.Helper()
	tag := must[name.Tag](t)(name.NewTag(d.host + "/team/web:1"))
	own := image(t, runtime.GOARCH, plain(layerOf(t, "text")))
	transport := header{&http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}, credentials}
	if err := remote.Write(tag, own, remote.WithTransport(transport)); err != nil {
		t.Fatal(err)
	}
	reference := d.host + "/team/web:1@" + must[v1.Hash](t)(own.Digest()).String()
	for login, want := range want {
		p := newPuller(t, &ociregistry.Server{Host: d.host, Authorities: roots}, registries...)
		p.login = login
		pulled, err := p.pull(reference)
		if writ.CodeOf(err) != want {
			t.Errorf("%+v: %v, want %q", login, err, want)
		}
		if err == nil {
			p.complete(pulled)
		}
	}
}

// The registry of Docker is a second opinion on accounts beside the one of the other tests.
func TestAccountsOfDistribution(t *testing.T) {
	t.Run("password", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "accounts")
		hash := must[[]byte](t)(bcrypt.GenerateFromPassword([]byte("right"), bcrypt.MinCost))
		if err := os.WriteFile(file, append([]byte("ci:"), hash...), 0o600); err != nil {
			t.Fatal(err)
		}
		i := newIdentity(t)
		d := startDistribution(t, i, "auth: {htpasswd: {realm: test, path: "+file+"}}\n")
		d.try(t, "Basic "+base64.StdEncoding.EncodeToString([]byte("ci:right")), i.pool(), map[Login]writ.Code{
			{"ci", "right"}: "", {"ci", "wrong"}: writ.CodeRegistryLogin, {"other", "right"}: writ.CodeRegistryLogin, {}: writ.CodeRegistryDenied,
		})
	})
	t.Run("token", func(t *testing.T) {
		i := newIdentity(t)
		issuer := listen(t, func(w http.ResponseWriter, r *http.Request) {
			user, password, _ := r.BasicAuth()
			if r.Method == http.MethodPost {
				user, password = r.PostForm.Get("username"), r.PostForm.Get("password")
			}
			var actions []string
			switch {
			case user != "" && password != "right":
				w.WriteHeader(http.StatusUnauthorized)
				return
			case user == "ci":
				actions = []string{"pull"}
			}
			token := i.token(t, actions...)
			_ = json.NewEncoder(w).Encode(map[string]any{"token": token, "access_token": token, "expires_in": 300})
		})
		d := startDistribution(t, i, "auth: {token: {realm: 'https://"+issuer.host+"/token', service: registry, issuer: test, rootcertbundle: CERTIFICATE}}\n")
		roots := i.pool()
		roots.AddCert(issuer.Certificate())
		d.try(t, "Bearer "+i.token(t, "pull", "push"), roots, map[Login]writ.Code{
			{"ci", "right"}: "", {"ci", "wrong"}: writ.CodeRegistryLogin, {"stranger", "right"}: writ.CodeRegistryDenied, {}: writ.CodeRegistryDenied,
		}, issuer.host)
	})
}

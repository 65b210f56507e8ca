package registry

import (
	"bytes"
	"encoding/base64"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/opencontainers/go-digest"

	"writ"
	"writ/internal/test/ociregistry"
)

// listener is a server that records the credentials of requests and answers with a function.
type listener struct {
	*httptest.Server
	host string

	mu    sync.Mutex
	heard []string
}

func listen(t *testing.T, answer http.HandlerFunc) *listener {
	l := &listener{}
	l.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		l.mu.Lock()
		l.heard = append(l.heard, r.Method, r.Header.Get("Authorization"), r.PostForm.Get("password"))
		l.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(l.Close)
	l.host = l.Listener.Addr().String()
	return l
}

// hears reports whether the server heard a part of the credentials, and whether it was asked.
func (l *listener) hears() (login, asked bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := strings.Join(l.heard, " ")
	return strings.Contains(text, "Basic") || strings.Contains(text, "Bearer") || strings.Contains(text, "right"), text != ""
}

// with returns a puller that trusts the registry and another server, which it permits.
func with(t *testing.T, s *ociregistry.Server, other *listener) *puller {
	p := newPuller(t, s, other.host)
	p.Authorities = s.Authorities.Clone()
	p.Authorities.AddCert(other.Certificate())
	p.login = Login{"ci", "right"}
	return p
}

func isBasic(r *http.Request) bool { _, password, _ := r.BasicAuth(); return password == "right" }

// Promise: Secrets: Only the registry of an image and the token server that it names get the password of the argument
// login, never a mirror, the target of a redirect, or a server without TLS.
// How: The client has the login of one host; its transport removes it from redirected requests.
// Also: TestLoginIsForItsRegistryOnly, TestLoginNeedsTLS.
func TestRedirectsLoseLogin(t *testing.T) {
	s := ociregistry.Start(t)
	layer := layerOf(t, "text")
	of := s.Push(t, "web:1", image(t, runtime.GOARCH, plain(layer)))

	// A registry keeps its blobs at another server, here on another port of the same host, which redirects to itself.
	again := func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/again" {
			http.Redirect(w, r, "/again", http.StatusFound)
		}
		return r.URL.Path != "/again"
	}
	blobs := listen(t, func(w http.ResponseWriter, r *http.Request) {
		if !again(w, r) {
			_, _ = w.Write(layer)
		}
	})
	basic := func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case !isBasic(r):
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
		case strings.HasSuffix(r.URL.Path, "/blobs/"+digest.FromBytes(layer).String()):
			http.Redirect(w, r, "https://"+blobs.host+"/blob", http.StatusTemporaryRedirect)
		default:
			return false
		}
		return true
	}
	s.Before(basic)
	if _, err := with(t, s, blobs).pull(s.Host + "/web@" + of); err != nil {
		t.Errorf("blobs at another server: %v", err)
	}
	if login, asked := blobs.hears(); login || !asked {
		t.Errorf("the server of blobs heard %q", blobs.heard)
	}

	// A token server gets the password, and the server to which it redirects does not.
	thief := listen(t, func(w http.ResponseWriter, r *http.Request) {
		if !again(w, r) {
			_, _ = w.Write([]byte(`{"token":"abc","access_token":"abc"}`))
		}
	})
	for _, status := range []int{http.StatusFound, http.StatusTemporaryRedirect} {
		issuer := listen(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://"+thief.host+"/token", status)
		})
		s.Before(bearer("https://" + issuer.host + "/token"))
		p := with(t, s, issuer)
		p.Authorities.AddCert(thief.Certificate())
		p.Policy = must[Policy](t)(ParsePolicy([]string{s.Host, issuer.host, thief.host}))
		_, _ = p.pull(s.Host + "/web@" + of)
		if login, _ := issuer.hears(); !login {
			t.Errorf("%d: the token server heard %q", status, issuer.heard)
		}
		if login, _ := thief.hears(); login {
			t.Errorf("%d: the target of its redirect heard %q", status, thief.heard)
		}
	}
}

// bearer answers as a registry that accepts only the token "abc" of a token server.
func bearer(realm string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") == "Bearer abc" {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Bearer realm="`+realm+`",service="x"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
}

func TestRejectedLoginHasItsCode(t *testing.T) {
	s := ociregistry.Start(t)
	of := s.Push(t, "web:1", image(t, runtime.GOARCH, plain(layerOf(t, "text"))))
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	token := func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"token":"other","access_token":"other"}`))
	}
	onlyGet := func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = w.Write([]byte(`{"token":"abc"}`))
	}
	noAccessByGet := func(w http.ResponseWriter, r *http.Request) { // some servers refuse the first form of the request
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		token(w, r)
	}
	for name, tt := range map[string]struct {
		issuer http.HandlerFunc
		want   writ.Code
	}{
		"unauthorized":        {status(http.StatusUnauthorized), writ.CodeRegistryLogin},
		"forbidden":           {status(http.StatusForbidden), writ.CodeRegistryLogin},
		"bad request":         {status(http.StatusBadRequest), writ.CodeRegistryLogin},
		"a fault":             {status(http.StatusBadGateway), writ.CodeRegistryBusy},
		"no access":           {token, writ.CodeRegistryDenied},
		"no access, by GET":   {noAccessByGet, writ.CodeRegistryDenied},
		"tokens only by GET":  {onlyGet, ""},
		"no password at last": {status(http.StatusNotFound), writ.CodeImageUnknown},
	} {
		issuer := listen(t, tt.issuer)
		s.Before(bearer("https://" + issuer.host + "/token"))
		if _, err := with(t, s, issuer).pull(s.Host + "/web@" + of); writ.CodeOf(err) != tt.want {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
	}
	s.Before(func(w http.ResponseWriter, r *http.Request) bool { // the account may not read this repository
		if isBasic(r) {
			w.WriteHeader(http.StatusForbidden)
			return true
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	p := newPuller(t, s)
	p.login = Login{"ci", "right"}
	if _, err := p.pull(s.Host + "/web@" + of); writ.CodeOf(err) != writ.CodeRegistryDenied || !strings.Contains(err.Error(), "the user ci") {
		t.Errorf("an account without access: %v", err)
	}
}

// An attacker in the network could answer without TLS in place of a registry.
func TestLoginNeedsTLS(t *testing.T) {
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	var heard []string
	plain := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		heard = append(heard, r.Method+" "+r.Header.Get("Authorization"))
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	_ = plain.Listener.Close()
	plain.Listener = l
	plain.Start()
	defer plain.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	s := ociregistry.Start(t)
	p := newPuller(t, s, "0.0.0.0:"+port) // an address of this host that is not a loopback address
	p.login = Login{"ci", "right"}
	if _, err := p.pull("0.0.0.0:" + port + "/web@sha256:" + strings.Repeat("ab", 32)); writ.CodeOf(err) != writ.CodeUnreachable || !strings.Contains(err.Error(), "TLS") {
		t.Errorf("a registry without TLS: %v", err)
	}
	if len(heard) > 0 {
		t.Errorf("it heard %q", heard)
	}
	p.Policy = must[Policy](t)(ParsePolicy([]string{"127.0.0.1:" + port}))
	if _, err := p.pull("127.0.0.1:" + port + "/web@sha256:" + strings.Repeat("ab", 32)); writ.CodeOf(err) != writ.CodeRegistryLogin || len(heard) == 0 {
		t.Errorf("a registry without TLS on this host: %v, heard %q", err, heard)
	}
}

func TestErrorsHaveNoPassword(t *testing.T) {
	s := ociregistry.Start(t)
	p := newPuller(t, s)
	p.login = Login{"ci", "right-and-long"}
	header := base64.StdEncoding.EncodeToString([]byte("ci:right-and-long"))
	for name, answer := range map[string]http.HandlerFunc{
		"challenge": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="https://`+s.Host+`/token",service="x",error="right-and-long"`)
			w.WriteHeader(http.StatusUnauthorized)
		},
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			if _, _, given := r.BasicAuth(); given {
				http.Redirect(w, r, "https://right-and-long.invalid/"+header, http.StatusFound)
				return
			}
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
		},
		"body": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusTeapot)
			_, _ = w.Write([]byte("right-and-long " + header))
		},
	} {
		s.Before(func(w http.ResponseWriter, r *http.Request) bool { answer(w, r); return true })
		_, err := p.pull(s.Host + "/web@sha256:" + strings.Repeat("ab", 32))
		if err == nil || strings.Contains(err.Error(), "right-and-long") || strings.Contains(err.Error(), header) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The default registries are on the internet. Only the operator can permit one at another address.
func TestRegistryAtPrivateAddressIsForbidden(t *testing.T) {
	s := ociregistry.Start(t)
	p := newPuller(t, s)
	p.Policy.named = false
	_, err := p.pull(s.Host + "/web@sha256:" + strings.Repeat("ab", 32))
	e := writ.AsError(err)
	if e == nil || e.Code != writ.CodeRegistryForbidden || e.Retryable() || !strings.Contains(e.Hint, "`writ runner --registry "+s.Host+"`") {
		t.Errorf("a registry on this host: %v", err)
	}
	if seen := s.Seen(); len(seen) > 0 {
		t.Errorf("it got %q", seen)
	}
}

// A registry chooses the servers of redirects. The error tells an author the same of all of them.
func TestErrorsShowNothingOfTheNetwork(t *testing.T) {
	s := ociregistry.Start(t)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	broken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer broken.Close()
	go func() {
		for c, err := broken.Accept(); err == nil; c, err = broken.Accept() {
			c.Close()
		}
	}()
	said := map[string]bool{}
	for name, target := range map[string]string{
		"unknown name": "https://db.internal.invalid", "closed port": "https://" + closed.Addr().String(),
		"another service": "https://" + broken.Addr().String(), "refused address": "https://10.0.0.1", "plain": "http://10.1.1.1",
	} {
		s.Before(func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, target+"/blob", http.StatusFound)
			return true
		})
		var log bytes.Buffer
		p := newPuller(t, s)
		p.Allow, p.Source.Log = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, slog.New(slog.NewTextHandler(&log, nil))
		_, err := p.pull(s.Host + "/web@sha256:" + strings.Repeat("ab", 32))
		if writ.CodeOf(err) != writ.CodeUnreachable || strings.Contains(err.Error(), target[len("https://"):]) {
			t.Errorf("%s: %v", name, err)
		}
		if target[:5] == "https" {
			said[err.Error()] = true
		}
		if !strings.Contains(log.String(), strings.TrimPrefix(target, "https://")) {
			t.Errorf("%s: the log has %q", name, log.String())
		}
	}
	if len(said) != 1 {
		t.Errorf("the errors differ: %v", slices.Collect(maps.Keys(said)))
	}
}

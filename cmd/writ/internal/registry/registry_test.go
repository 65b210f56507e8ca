package registry

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/empty"

	"writ"
	"writ/internal/imageref"
	"writ/internal/outbound"
	"writ/internal/test/ociregistry"
	"writ/internal/test/testenv"
)

func TestTagsAreResolved(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	s := ociregistry.Start(t)
	digest := s.Push(t, "team/web:1", empty.Image)
	status := func(code int) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(code); return true }
	}
	for name, tt := range map[string]struct {
		tag    string
		before func(http.ResponseWriter, *http.Request) bool
		want   writ.Code
	}{
		"a tag":        {"team/web:1", nil, ""},
		"another tag":  {"team/web:2", nil, writ.CodeImageUnknown},
		"another name": {"team/wbe:1", nil, writ.CodeImageUnknown},
		"no access":    {"team/web:1", status(http.StatusForbidden), writ.CodeRegistryDenied},
		"too often":    {"team/web:1", status(http.StatusTooManyRequests), writ.CodeRegistryBusy},
		"a fault":      {"team/web:1", status(http.StatusInternalServerError), writ.CodeRegistryBusy},
	} {
		s.Before(tt.before)
		r, err := imageref.Parse(s.Host + "/" + tt.tag)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Resolver{s.Transport()}.Resolve(t.Context(), r)
		if writ.CodeOf(err) != tt.want || err == nil && got != digest {
			t.Errorf("%s: %q, %v, want %s", name, got, err, tt.want)
		}
		if err != nil && writ.AsError(err).Hint == "" {
			t.Errorf("%s: no next step in %v", name, err)
		}
	}
}

// The registry wants the account of the user's Docker configuration.
func TestDockersAccountIsUsed(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("DOCKER_CONFIG", dir)
	s := ociregistry.Start(t)
	digest := s.Push(t, "web:1", empty.Image)
	s.Before(func(w http.ResponseWriter, r *http.Request) bool {
		if _, password, _ := r.BasicAuth(); password == "right" {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	r, err := imageref.Parse(s.Host + "/web:1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (Resolver{s.Transport()}).Resolve(t.Context(), r); writ.CodeOf(err) != writ.CodeRegistryDenied {
		t.Errorf("without an account: %v", err)
	}
	s.LogIn(t, dir, "ci", "right")
	if got, err := (Resolver{s.Transport()}).Resolve(t.Context(), r); got != digest {
		t.Errorf("with an account: %q, %v", got, err)
	}
}

// An attacker in the network could choose the digest that the user signs.
func TestRegistriesWithoutTLSAreRefused(t *testing.T) {
	answer := roundTrip(func(q *http.Request) (*http.Response, error) {
		if q.URL.Scheme == "https" {
			return nil, io.EOF
		}
		t.Errorf("%s was asked without TLS", q.URL)
		return nil, io.EOF
	})
	for _, host := range []string{"registry.local", "10.0.0.1", "registry.example"} {
		_, err := Resolver{answer}.Resolve(t.Context(), imageref.Reference{Registry: host, Repository: "web", Tag: "1"})
		if writ.CodeOf(err) != writ.CodeUnreachable || !strings.Contains(err.Error(), host) ||
			!strings.Contains(writ.AsError(err).Hint, "`writ deployment show NAME` lists the digests") {
			t.Errorf("%s: %v", host, err)
		}
	}
}

type roundTrip func(q *http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(q *http.Request) (*http.Response, error) { return f(q) }

// Only a registry that reports the absence of an image makes it gone.
func TestGoneImagesAreFound(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	s := ociregistry.Start(t)
	digest := s.Push(t, "team/web:1", empty.Image)
	status := func(code int) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(code); return true }
	}
	for name, tt := range map[string]struct {
		digest string
		before func(http.ResponseWriter, *http.Request) bool
		want   writ.Code
	}{
		"an image":       {digest, nil, ""},
		"another digest": {"sha256:" + strings.Repeat("0a", 32), nil, writ.CodeImageGone},
		"no access":      {digest, status(http.StatusForbidden), writ.CodeRegistryDenied},
		"a fault":        {digest, status(http.StatusInternalServerError), writ.CodeRegistryBusy},
	} {
		s.Before(tt.before)
		r := imageref.Reference{Registry: s.Host, Repository: "team/web", Tag: "1", Digest: tt.digest}
		err := Resolver{s.Transport()}.Present(t.Context(), r)
		if writ.CodeOf(err) != tt.want {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
		if err != nil && writ.AsError(err).Hint == "" {
			t.Errorf("%s: no next step in %v", name, err)
		}
	}
}

func TestProtocolSwitchEndsResolving(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	s := ociregistry.StartOldHTTP(t)
	s.Before(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/v2/" {
			return false
		}
		ociregistry.SwitchProtocol(w)
		return true
	})
	r := imageref.Reference{Registry: s.Host, Repository: "web", Tag: "1"}
	err := testenv.End(t, func() error { _, err := Resolver{s.Transport()}.Resolve(t.Context(), r); return err })
	if writ.CodeOf(err) != writ.CodeUnreachable || !strings.Contains(err.Error(), outbound.ErrSwitched.Error()) {
		t.Errorf("%v", err)
	}
}

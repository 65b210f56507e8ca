// Package registry asks registries for the digests of container images, with the credentials of the user's Docker
// configuration. It fetches manifests only.
package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"writ"
	"writ/internal/imageref"
	"writ/internal/outbound"
)

// Resolver asks registries.
type Resolver struct {
	Transport http.RoundTripper // nil means http.DefaultTransport
}

// Limits of answers of registries: bytes of a manifest or token, and the wait for each part of it.
const (
	maxAnswer   = 4 << 20
	answerPause = time.Minute
)

func (s Resolver) transport() http.RoundTripper {
	return onlyTLS{outbound.Bounded{
		By: outbound.Final(cmp.Or(s.Transport, http.DefaultTransport)), Most: maxAnswer, Pause: answerPause,
	}}
}

// Resolve returns the digest of a tag. Requests use TLS, except on loopback: otherwise an attacker in the network could
// choose the content that the user signs. The error has the code IMAGE_UNKNOWN, REGISTRY_DENIED, REGISTRY_BUSY or
// UNREACHABLE.
func (s Resolver) Resolve(ctx context.Context, r imageref.Reference) (string, error) {
	tag, err := name.NewTag(r.String())
	if err != nil {
		return "", writ.Errorf(writ.CodeUsage, "%s is not a reference to an image: %v", r, err)
	}
	found, err := remote.Get(tag, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain),
		remote.WithTransport(s.transport()), remote.WithUserAgent("writ"), remote.WithRetryBackoff(patience))
	if err != nil {
		return "", explain(r, err)
	}
	digest := found.Digest.String()
	if !imageref.IsDigest(digest) {
		return "", writ.Errorf(writ.CodeImageUnknown, "the registry returned %q for %s, which is not a SHA-256 digest",
			digest, r)
	}
	return digest, nil
}

// patience defines the pauses between attempts at a registry that has a fault.
var patience = remote.Backoff{Duration: 300 * time.Millisecond, Factor: 2, Steps: 3}

// Offline is used in place of Resolve if no request is allowed.
func Offline(_ context.Context, r imageref.Reference) (string, error) {
	return "", withDigestHint(r, writ.Errorf(writ.CodeImageUnresolved, "the digest of %s is not known offline", r))
}

// explain returns the error for a failed request.
func explain(r imageref.Reference, err error) error {
	answer, answered := errors.AsType[*transport.Error](err)
	if !answered {
		return withDigestHint(r, writ.Errorf(writ.CodeUnreachable, "cannot resolve the digest of %s: %v", r, err))
	}
	switch status := answer.StatusCode; {
	case status == http.StatusNotFound:
		return writ.Errorf(writ.CodeImageUnknown, "%s has no image %s with the tag %s", r.Registry, r.Repository, r.Tag).
			WithHint("correct the reference, or push the image")
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return writ.Errorf(writ.CodeRegistryDenied, "%s denies access to the image %s, or the image does not exist",
			r.Registry, r.Repository).WithHint("log in with `docker login %s`, or correct the reference", r.Registry)
	case status == http.StatusTooManyRequests || status >= 500:
		return withDigestHint(r, writ.Errorf(writ.CodeRegistryBusy, "%s answered with status %d", r.Registry, status))
	}
	return withDigestHint(r, writ.Errorf(writ.CodeImageUnknown, "%s answered with status %d for %s", r.Registry,
		answer.StatusCode, r))
}

func withDigestHint(r imageref.Reference, err *writ.Error) *writ.Error {
	return err.WithHint("if you know the digest, write it in the script: %s; `writ deployment show NAME` lists the "+
		"digests of the last revision", r.At("sha256:…"))
}

// onlyTLS rejects requests without TLS to hosts other than this one.
type onlyTLS struct{ http.RoundTripper }

func (t onlyTLS) RoundTrip(q *http.Request) (*http.Response, error) {
	if q.URL.Scheme != "https" && !isLoopback(q.URL.Hostname()) {
		return nil, fmt.Errorf("%s does not use TLS", q.URL.Host)
	}
	return t.RoundTripper.RoundTrip(q)
}

func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

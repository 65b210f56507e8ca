package registry

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	remoteerrors "github.com/containerd/containerd/v2/core/remotes/errors"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"

	"writ"
	"writ/internal/clip"
	"writ/internal/imageref"
	"writ/internal/outbound"
)

// storeError is an error of the content store, and not of the registry.
type storeError struct{ error }

func (e storeError) Unwrap() error { return e.error }

// IsOfStore reports whether an error of Pull came from the content store.
func IsOfStore(err error) bool {
	_, is := errors.AsType[storeError](err)
	return is
}

// storeWriter marks the errors of a content store.
type storeWriter struct{ content.Writer }

func (w storeWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if err != nil {
		err = storeError{err}
	}
	return n, err
}

// explain returns the error of a pull for people. It does not change errors of the content store and of this package.
// rejected means that the registry rejected the login.
func explain(ctx context.Context, q Request, rejected bool, err error) error {
	r := q.Reference
	if err == nil || IsOfStore(err) {
		return err
	}
	if known, ok := errors.AsType[*writ.Error](err); ok {
		return known
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errdefs.IsFailedPrecondition(err) { // the server sends more than the size in the manifest
		return writ.Errorf(writ.CodeChecksumMismatch, "the registry sent more bytes of %s than its manifest names", r).
			WithHint("%s", damagedMirror)
	}
	status := 0
	if answer, ok := errors.AsType[remoteerrors.ErrUnexpectedStatus](err); ok {
		status = answer.StatusCode
	}
	switch {
	case errors.Is(err, errNotOnline):
		return writ.Errorf(writ.CodeRegistryForbidden, "%s is at a private address, from which this node pulls no images",
			r.Registry).
			WithHint("the operator allows it with `writ runner --registry %s`, which names each allowed registry", r.Registry)
	case rejected && status != http.StatusTooManyRequests && status < 500:
		return writ.Errorf(writ.CodeRegistryLogin, "%s rejects the user %s or its password", r.Registry, q.Login.User).
			WithHint("set the password again with `writ secret set`, and sign the script again")
	case status == http.StatusUnauthorized || status == http.StatusForbidden ||
		errors.Is(err, docker.ErrInvalidAuthorization):
		return denied(q)
	case status == http.StatusNotFound || errdefs.IsNotFound(err):
		return writ.Errorf(writ.CodeImageUnknown, "%s does not have %s", r.Registry, r).
			WithHint("push the image again, or correct the reference")
	case status == http.StatusTooManyRequests || status >= 500:
		return writ.Errorf(writ.CodeRegistryBusy, "%s answered with status %d", r.Registry, status).
			WithHint("the call is retried; an account of the registry or a mirror (`writ runner --registry`) has higher limits")
	case status != 0:
		return writ.Errorf(writ.CodeImageUnknown, "%s answered with status %d for %s", r.Registry, status, r)
	}
	return writ.Errorf(writ.CodeUnreachable, "cannot pull %s: %s", r, publicCause(err)).
		WithHint("the log of the node's runner has the cause, and the node repeats the call a few times")
}

// publicCauses are the causes that an author may see.
var publicCauses = []error{
	errStalled, errNoTLS, errRedirectedLogin, outbound.ErrSlow, outbound.ErrLong, outbound.ErrEncoded, outbound.ErrSwitched,
	outbound.ErrInsecure,
}

// publicCause returns the part of a cause for the author of a script. DNS, connection and certificate errors would show
// names, addresses and open ports of the operator's network: the registry chooses the servers for redirects and tokens.
func publicCause(err error) string {
	for _, public := range publicCauses {
		if errors.Is(err, public) {
			return public.Error()
		}
	}
	return "the registry, or a server that it names, cannot be reached"
}

// logCause logs the cause of an error that explain shortens.
func (s *Source) logCause(ctx context.Context, q Request, err, explained error) {
	if s.Log != nil && writ.CodeOf(explained) == writ.CodeUnreachable && writ.CodeOf(err) != writ.CodeUnreachable {
		s.Log.WarnContext(ctx, "pull an image", "image", q.Reference.String(),
			"err", clip.OneLine(q.Login.redact(err.Error()), maxCause))
	}
}

// maxCause limits a logged cause, in bytes.
const maxCause = 1000

func denied(q Request) *writ.Error {
	if q.Login.User != "" {
		return writ.Errorf(writ.CodeRegistryDenied, "%s denies access to %s for the user %s", q.Reference.Registry,
			q.Reference.Repository, q.Login.User).WithHint("give the user access to the repository")
	}
	return writ.Errorf(writ.CodeRegistryDenied, "%s denies access to %s without an account", q.Reference.Registry,
		q.Reference.Repository).
		WithHint("name an account of the registry in the argument login, with its password as a secret")
}

func forbidden(registry string, allowed []string) *writ.Error {
	if len(allowed) == 0 {
		return writ.Errorf(writ.CodeRegistryForbidden, "this node pulls no images from registries").
			WithHint("the operator allows registries with `writ runner --registry %s`", registry)
	}
	return writ.Errorf(writ.CodeRegistryForbidden, "this node does not pull images from %s, only from %s", registry,
		strings.Join(allowed, ", ")).
		WithHint("the operator allows a registry with `writ runner --registry %s`", registry)
}

func otherPlatform(r imageref.Reference, available string) *writ.Error {
	e := writ.Errorf(writ.CodeImagePlatform, "%s is not made for %s", r, platform())
	if available != "" {
		return e.WithHint("it is made for %s", available)
	}
	return e
}

func mismatch(want, got digest.Digest) *writ.Error {
	return writ.Errorf(writ.CodeChecksumMismatch, "the registry sent content with the digest %s in place of %s", got, want).
		WithHint("%s", damagedMirror)
}

const damagedMirror = "report it to the operator of the registry; a mirror may be damaged"

// FreeForImages describes a limit that is the free space for images. In an error, it follows the amount.
const FreeForImages = "that are free for images on this node"

func tooLarge(q Request) *writ.Error {
	return writ.Errorf(writ.CodeQuotaExceeded, "%s is larger than the %d MiB %s", q.Reference, q.MaxBytes>>20,
		cmp.Or(q.Limit, FreeForImages)).
		WithHint("delete unused containers, or give the node's runner a larger --image-disk")
}

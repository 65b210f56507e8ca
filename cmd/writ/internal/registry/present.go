package registry

import (
	"context"
	"errors"
	"net/http"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"writ"
	"writ/internal/imageref"
)

// Present returns nil if the registry still has the image with the digest of a reference. The error is IMAGE_GONE if
// the registry reports that it lacks the image. After any other error, which is one of Resolve's errors, the image may
// still exist. Some registries deny access to deleted repositories; the error is then REGISTRY_DENIED.
func (s Resolver) Present(ctx context.Context, r imageref.Reference) error {
	digest, err := name.NewDigest(r.Name() + "@" + r.Digest)
	if err != nil {
		return writ.Errorf(writ.CodeUsage, "%s has no digest: %v", r, err)
	}
	_, err = remote.Head(digest, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain),
		remote.WithTransport(s.transport()), remote.WithUserAgent("writ"),
		remote.WithRetryBackoff(patience))
	if answer, ok := errors.AsType[*transport.Error](err); ok && answer.StatusCode == http.StatusNotFound {
		return writ.Errorf(writ.CodeImageGone, "%s no longer has the image %s", r.Registry, r).
			WithHint("push the image with this digest again, or submit a script with another image")
	}
	if err != nil {
		return explain(r, err)
	}
	return nil
}

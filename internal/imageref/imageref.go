// Package imageref reads references to container images at registries, such as
// docker.io/library/nginx:1.27@sha256:0123…. It does not contact registries.
package imageref

import (
	"errors"
	"strings"

	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
)

// MaxLength limits the bytes of a reference. The repository in it has at most 255 bytes.
const MaxLength = 512

// Example is a reference for messages.
const Example = "docker.io/library/nginx:1.27"

// Reference names an image at a registry. It has a tag, a digest, or both. With both, the digest decides.
type Reference struct {
	Registry   string // host, with the port if there is one: "docker.io"
	Repository string // "library/nginx"
	Tag        string // "1.27"
	Digest     string // "sha256:" and 64 hex digits: the content
}

// Looks reports whether a text is meant as a reference, and not as the name of a resource: names have only lower-case
// letters, digits and hyphens.
func Looks(text string) bool { return strings.ContainsAny(text, "/:@.") }

// Parse reads a reference. Short forms are completed as Docker does: nginx:1.27 is docker.io/library/nginx:1.27, and
// without tag and digest the tag is latest.
func Parse(text string) (Reference, error) {
	if len(text) > MaxLength {
		return Reference{}, errors.New("it is too long")
	}
	named, err := reference.ParseNormalizedNamed(text)
	if err != nil {
		return Reference{}, errors.New("its form is invalid")
	}
	named = reference.TagNameOnly(named)
	r := Reference{Registry: reference.Domain(named), Repository: reference.Path(named)}
	if tagged, ok := named.(reference.Tagged); ok {
		r.Tag = tagged.Tag()
	}
	if digested, ok := named.(reference.Digested); ok {
		if r.Digest = digested.Digest().String(); !IsDigest(r.Digest) {
			return Reference{}, errors.New("its digest is not a SHA-256")
		}
	}
	return r, nil
}

// IsDigest reports whether a text is "sha256:" with 64 lower-case hex digits.
func IsDigest(text string) bool {
	d, err := digest.Parse(text)
	return err == nil && d.Algorithm() == digest.SHA256
}

// IsResolved reports whether a text is the full form of a reference with a digest, as String returns it.
func IsResolved(text string) bool {
	r, err := Parse(text)
	return err == nil && r.Digest != "" && r.String() == text
}

// Name returns the registry and the repository.
func (r Reference) Name() string { return r.Registry + "/" + r.Repository }

// Tagged returns the reference without its digest. A reference without a tag is returned unchanged.
func (r Reference) Tagged() Reference {
	if r.Tag != "" {
		r.Digest = ""
	}
	return r
}

// At returns the reference with a digest.
func (r Reference) At(digest string) Reference {
	r.Digest = digest
	return r
}

// String returns the full form.
func (r Reference) String() string {
	text := r.Name()
	if r.Tag != "" {
		text += ":" + r.Tag
	}
	if r.Digest != "" {
		text += "@" + r.Digest
	}
	return text
}

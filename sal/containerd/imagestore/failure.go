package imagestore

import (
	"slices"
	"strings"

	"github.com/containerd/errdefs"

	"writ"
	"writ/internal/lazyregexp"
	"writ/sal"
)

// Failed converts an error of the daemon to a *writ.Error for people. It returns nil for nil. `doing` continues "cannot
// ", such as "find the container".
func Failed(doing string, err error) error {
	if err == nil {
		return nil
	}
	// The daemon passes disk errors of the system on as text only.
	for _, full := range []string{"no space left on device", "disk quota exceeded"} {
		if strings.Contains(err.Error(), full) {
			return writ.Errorf(writ.CodeDiskFull, "cannot %s: %w", doing, err).
				WithHint("free space where containerd keeps its files; the call is retried")
		}
	}
	if errdefs.IsUnavailable(err) {
		return writ.Errorf(writ.CodeDriverFailed, "cannot %s: %w", doing, err).
			WithHint("containerd stopped meanwhile; the call is retried")
	}
	return sal.HostError(doing, err)
}

// IsGone reports whether an error means "not found".
func IsGone(err error) bool { return errdefs.IsNotFound(err) }

// IsExisting reports whether an error means "already exists".
func IsExisting(err error) bool { return errdefs.IsAlreadyExists(err) }

// notUnpacked returns the error of an image that containerd did not unpack. The archive is complete, so an error that
// the entries of a layer cause is not retryable.
func notUnpacked(err error) error {
	_, text, found := strings.Cut(strings.TrimSuffix(err.Error(), ": unknown"), "failed to extract layer ")
	layer, why, _ := strings.Cut(text, ": ")
	if !found || !causedByLayer(why) {
		return Failed("unpack the image", err)
	}
	return writ.Errorf(writ.CodeArgumentsInvalid, "the layer %s of the image cannot be unpacked: %s", layer,
		treePath.ReplaceAllString(why, "/")).
		WithHint("build the image again; `tar -tvf` lists the entries of a layer")
}

// treePath matches the path of a layer on the host.
var treePath = lazyregexp.New(`/[^\s"]*/(snapshots|active|view|tmpmounts)/[^/\s"]+(/fs)?/`)

// badEntry lists the errors about an entry of a layer.
var badEntry = []string{
	"not a directory", "is a directory", "file name too long", "too many levels of symbolic links", "invalid argument",
	"invalid whiteout name", "unhandled tar header type", "invalid archive", "archive/tar:", "unexpected EOF",
}

// causedByLayer reports whether a layer causes an error of unpacking, so that each further attempt would fail.
func causedByLayer(why string) bool {
	switch {
	case strings.HasPrefix(why, "link "): // the target of a hard link is not in the image
		return strings.Contains(why, "no such file or directory")
	case strings.HasPrefix(why, "failed to setxattr "): // a file system limits the attributes of a file
		return ContainsAny(why, []string{
			"argument list too long", "numerical result out of range", "no space left on device", "invalid argument",
		})
	}
	return ContainsAny(why, badEntry)
}

// ContainsAny reports whether a text contains one of the parts.
func ContainsAny(text string, parts []string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
}

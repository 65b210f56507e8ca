package containerd

import (
	"regexp"
	"strings"

	"writ"
)

// notUnpacked returns the error of an image that containerd did not unpack. The archive is complete, so an error that
// the entries of a layer cause is not retryable.
func notUnpacked(err error) error {
	_, text, found := strings.Cut(strings.TrimSuffix(err.Error(), ": unknown"), "failed to extract layer ")
	layer, why, _ := strings.Cut(text, ": ")
	if !found || !causedByLayer(why) {
		return failed("unpack the image", err)
	}
	return writ.Errorf(writ.CodeArgumentsInvalid, "the layer %s of the image cannot be unpacked: %s", layer,
		treePath.ReplaceAllString(why, "/")).
		WithHint("build the image again; `tar -tvf` lists the entries of a layer")
}

// treePath matches the path of a layer on the host.
var treePath = regexp.MustCompile(`/[^\s"]*/(snapshots|active|view|tmpmounts)/[^/\s"]+(/fs)?/`)

// badEntry lists the errors about an entry of a layer.
var badEntry = []string{
	"not a directory", "is a directory", "file name too long", "too many levels of symbolic links", "invalid argument",
	"invalid whiteout name", "unhandled tar header type", "invalid archive", "archive/tar:", "unexpected EOF",
}

// causedByLayer reports whether an error of the unpacking repeats for each attempt.
func causedByLayer(why string) bool {
	switch {
	case strings.HasPrefix(why, "link "): // the target of a hard link is not in the image
		return strings.Contains(why, "no such file or directory")
	case strings.HasPrefix(why, "failed to setxattr "): // a file system limits the attributes of a file
		return containsAny(why, []string{
			"argument list too long", "numerical result out of range", "no space left on device", "invalid argument",
		})
	}
	return containsAny(why, badEntry)
}

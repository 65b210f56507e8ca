package catalog

import (
	"slices"
	"strings"
	"time"

	"writ/internal/imageref"

	"writ"
)

// ImageFetch holds the arguments of image.fetch.
type ImageFetch struct {
	URL    string `writ:"url,required,mutable,form=source,max=2048" help:"its source: https://, or file:/// below a directory that the node's operator permits; a new url for the same content is not checked"`
	SHA256 string `writ:"sha256,required,form=sha256" help:"the expected SHA-256 of the content"`
	Format string `writ:"format,default=raw,enum=raw|qcow2|oci" help:"the format: a raw disk, kernel or initramfs (raw), a qcow2 disk (qcow2), or a container image as OCI archive (oci)"`
}

// Image is the result of operations on an image.
type Image struct {
	Identity
	Path    string `writ:"path,required" help:"the file on the node"`
	SHA256  string `writ:"sha256,required" help:"SHA-256 of the content"`
	Format  string `writ:"format,required" help:"raw, qcow2 or oci"`
	SizeMiB int64  `writ:"size_mib,required" help:"size in MiB, rounded up"`
}

func imageOperations() []*Operation {
	image := declaration{Module: "image", Kind: writ.KindImage, Repeat: Safe}
	return []*Operation{
		declare[ImageFetch, Image](image.with("fetch", Make, 30*time.Minute,
			"Fetches an image to the node, verifies its SHA-256 and stores it under a name.").adds().fetches()),
		declare[Nothing, Image](image.with("get", Find, time.Minute,
			"Finds an image that an earlier run fetched.").reads()),
		declare[Nothing, Identity](image.with("delete", Remove, time.Minute,
			"Deletes an image from its node. Volumes created from it stay.").destroys(
			"The image. Resources created from it stay.")),
	}
}

// Images returns the references to images at registries in args of a schema, in the order of the schema.
func Images(s Schema, args map[string]any) []string {
	if !TakesImages(s) {
		return nil
	}
	var references []string
	_, _ = s.rewrite(args, func(f *Field, v any) (any, error) {
		if text, ok := v.(string); ok && isReference(f, text) {
			references = append(references, text)
		}
		return v, nil
	})
	return references
}

// ReplaceImages returns a copy of args and applies replace to every reference to an image at a registry. It stops at
// the first error of replace.
func ReplaceImages(
	s Schema, args map[string]any, replace func(reference string) (string, error),
) (map[string]any, error) {
	if !TakesImages(s) {
		return args, nil
	}
	return s.rewrite(args, func(f *Field, v any) (any, error) {
		if text, ok := v.(string); ok && isReference(f, text) {
			return replace(text)
		}
		return v, nil
	})
}

// TakesImages reports whether an argument may be a reference to an image at a registry.
func TakesImages(s Schema) bool {
	return slices.ContainsFunc(s, func(f Field) bool { return f.Registry })
}

func isReference(f *Field, text string) bool { return f.Registry && imageref.Looks(text) }

// WrongFormat returns the error for an image of a format that the argument does not accept, or nil if the argument
// accepts the format. Both drivers and plans use it, so they agree.
func WrongFormat(f *Field, image writ.ResourceID, format string) *writ.Error {
	if len(f.Formats) == 0 || slices.Contains(f.Formats, format) {
		return nil
	}
	return writ.Errorf(writ.CodeArgumentsInvalid, "%s needs an image of format %s, and %s is %s", f.Name,
		strings.Join(f.Formats, " or "), image, format).
		WithHint("fetch it with the format of its file under another name")
}

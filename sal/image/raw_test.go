package image

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"

	"writ"
)

func TestRawImagesHaveNoOtherFormat(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write([]byte("an initramfs")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{
		"/initramfs.gz": packed.Bytes(), "/disk.vmdk": []byte("KDMV\x01\x00"), "/disk.tar": append(make([]byte, 257), "ustar\x0000"...),
		"/login": []byte("<!DOCTYPE html><title>Sign in</title>"), "/empty": nil, "/disk": []byte("a disk"),
	}
	b := newFixture(t, newImageServer(t, files))
	for path, want := range map[string]string{
		"/initramfs.gz": "", "/disk": "", "/disk.vmdk": "a VMDK disk", "/disk.tar": "a tar archive", "/login": "a web page", "/empty": "empty",
	} {
		_, err := b.fetch(t.Context(), strings.Trim(strings.ReplaceAll(path, ".", "-"), "/"), map[string]any{"url": "https://" + serverName + path, "sha256": sum(files[path])})
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v", path, err)
			}
			continue
		}
		if writ.CodeOf(err) != writ.CodeArgumentsInvalid || !strings.Contains(err.Error(), want) || writ.AsError(err).Hint == "" {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

package imageref

import (
	"strings"
	"testing"
)

var someDigest = "sha256:" + strings.Repeat("0a", 32)

func TestShortReferencesAreCompleted(t *testing.T) {
	for text, want := range map[string]string{
		"nginx:1.27":                         "docker.io/library/nginx:1.27",
		"library/nginx":                      "docker.io/library/nginx:latest",
		"index.docker.io/nginx:1":            "docker.io/library/nginx:1",
		"ghcr.io/a/b/c:v1":                   "ghcr.io/a/b/c:v1",
		"localhost:5000/web":                 "localhost:5000/web:latest",
		"127.0.0.1:5000/web:1@" + someDigest: "127.0.0.1:5000/web:1@" + someDigest,
		"quay.io/web@" + someDigest:          "quay.io/web@" + someDigest,
		"[::1]:5000/web:1":                   "[::1]:5000/web:1",
	} {
		r, err := Parse(text)
		if err != nil || r.String() != want {
			t.Errorf("%s is %v, %v; want %s", text, r, err, want)
		}
		if again, err := Parse(r.String()); err != nil || again != r {
			t.Errorf("%s is read again as %v, %v", r, again, err)
		}
	}
}

func TestInvalidReferencesAreRejected(t *testing.T) {
	for _, text := range []string{
		"", "/nginx", "Nginx:1", "nginx:", "nginx@sha256:1", "nginx@md5:" + strings.Repeat("0", 32), "https://docker.io/nginx",
		"docker.io/nginx:1 ", "docker.io/../nginx:1", "nginx:" + strings.Repeat("a", 129), strings.Repeat("a/", 300) + "a",
		"nginx@sha256:" + strings.Repeat("0A", 32), "a\n/b:1",
	} {
		if r, err := Parse(text); err == nil {
			t.Errorf("%q is %s", text, r)
		}
	}
}

func TestOnlyAFullDigestIsResolved(t *testing.T) {
	for text, want := range map[string]bool{
		"docker.io/library/nginx:1.27@" + someDigest: true,
		"docker.io/library/nginx@" + someDigest:      true,
		"nginx:1.27@" + someDigest:                   false, // not the full form
		"docker.io/library/nginx:1.27":               false,
		"web":                                        false,
	} {
		if IsResolved(text) != want {
			t.Errorf("%s is resolved: %t", text, !want)
		}
	}
}

package scripts_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/scripts"
	"writ/scripts/check"
)

// Promise: Signatures and rosters: A run uses only images at registries whose digests the signature contains.
// How: the header lists each reference with its digest; the supervisor and the node reject other references.
// Also: TestOnlySignedImagesAreUsed.
func TestReferencesGetTheirSignedDigests(t *testing.T) {
	const text = `
container.create("web", {image: "nginx:1.27"})
container.create("app", {image: "ghcr.io/team/" + "app"})
container.create("own", {image: "busybox"})
`
	digest := "sha256:" + strings.Repeat("ab", 32)
	in := everything()
	in.Images = []string{"docker.io/library/nginx:1.27@" + digest, "ghcr.io/team/app:latest@" + digest}
	o := passed(t, in, text)
	if o.Status != scripts.Completed {
		t.Fatalf("%+v", o.Failure)
	}
	var got []any
	for _, c := range o.Calls {
		got = append(got, c.Args["image"])
	}
	if diff := cmp.Diff([]any{in.Images[0], in.Images[1], "busybox"}, got); diff != "" {
		t.Error(diff)
	}

	moved := in
	moved.Images = slices.Clone(in.Images)
	moved.Images[0] = "docker.io/library/nginx:1.27@sha256:" + strings.Repeat("cd", 32)
	if again := passed(t, moved, text); again.Calls[0].Hash == o.Calls[0].Hash || again.Calls[1].Hash != o.Calls[1].Hash {
		t.Error("a call with another digest is the same call, or one with the same digest is another")
	}
	for _, unsigned := range []string{"nginx", "nginx:1.28", "docker.io/library/nginx@" + digest, "nginx:1.27@sha256:" + strings.Repeat("cd", 32)} {
		o := passed(t, in, `container.create("web", {image: "`+unsigned+`"})`)
		if looks := strings.ContainsAny(unsigned, ":"); looks && (o.Status != scripts.Failed || o.Failure.Code != writ.CodeImageUnresolved) {
			t.Errorf("%s: %+v", unsigned, o.Failure)
		}
	}

	r := check.Check(bundleOf(imports + text))
	if diff := cmp.Diff([]string{"nginx:1.27"}, r.Images); diff != "" || !r.OK() {
		t.Errorf("%s %v", diff, r.Diagnostics)
	}
}

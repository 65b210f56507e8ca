package registry

import (
	"context"
	"slices"

	"writ"
	"writ/cmd/writ/internal/client"
	"writ/identity"
	"writ/internal/imageref"
	"writ/sal/catalog"
)

// ResolveImages sets o.Images: the references to images at registries in the text of the script and in its plan, and in
// more. The function resolve returns the digest of a tag. Roster is as for Plan.
func ResolveImages(
	ctx context.Context, o *client.Order, roster *identity.Roster, more []string,
	resolve func(context.Context, imageref.Reference) (string, error),
) error {
	resolved := make(map[string]imageref.Reference) // by their tags
	for _, text := range slices.Concat(more, o.Script.Report.Images, plannedImages(ctx, o, roster)) {
		r, err := imageref.Parse(text)
		if err != nil {
			return writ.Errorf(writ.CodeUsage, "%q is not a reference to an image: %v", text, err).
				WithHint("it looks like docker.io/library/nginx:1.27")
		}
		known, ok := resolved[r.Tagged().String()]
		switch {
		case ok && r.Digest != "" && r.Digest != known.Digest:
			return writ.Errorf(writ.CodeUsage, "the script uses %s with two digests, %s and %s", r.Tagged(), known.Digest,
				r.Digest).WithHint("a run has one digest for a tag")
		case ok:
			continue
		case r.Digest == "":
			digest, err := resolve(ctx, r)
			if err != nil {
				return err
			}
			r = r.At(digest)
		}
		resolved[r.Tagged().String()] = r
	}
	o.Images = nil
	for _, r := range resolved {
		o.Images = append(o.Images, r.String())
	}
	slices.Sort(o.Images)
	return nil
}

// plannedImages returns the references in the planned calls. It returns none if the script cannot be planned: then the
// run would fail, too.
func plannedImages(ctx context.Context, o *client.Order, roster *identity.Roster) (references []string) {
	if !slices.ContainsFunc(o.Script.Report.Operations, takesImages) {
		return nil
	}
	plan, err := o.Plan(ctx, roster)
	if err != nil {
		return nil
	}
	for _, call := range plan.Calls {
		if op, ok := catalog.Lookup(call.Operation); ok {
			references = append(references, catalog.Images(op.Args, call.Args)...)
		}
	}
	return references
}

func takesImages(operation string) bool {
	op, ok := catalog.Lookup(operation)
	return ok && catalog.TakesImages(op.Args)
}

// DigestOfText is a resolve function for ResolveImages that sends no request. For rehearsals, it returns the digest of
// the reference itself.
func DigestOfText(_ context.Context, r imageref.Reference) (string, error) {
	return "sha256:" + writ.DigestOf([]byte(r.String())).String(), nil
}

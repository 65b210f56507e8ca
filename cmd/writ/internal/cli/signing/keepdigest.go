package signing

import (
	"context"
	"strings"

	"writ"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/registry"
	"writ/cmd/writ/internal/revision"
	"writ/identity"
	"writ/internal/imageref"
)

// resolveImages resolves the tags of an order at their registries. If a registry does not answer, and the newest
// revision of the deployment has the digests of its tags, the hint of the error has the flags that sign them again.
//
// The digests are never used without these flags: the author may expect a moved tag, and an attacker could block the
// registry to choose the earlier content.
func resolveImages(
	ctx context.Context, c *client.Client, roster *identity.Roster, order *client.Order, more []string,
) error {
	var silent imageref.Reference // the reference whose registry did not answer
	err := registry.ResolveImages(ctx, order, roster, more,
		func(ctx context.Context, r imageref.Reference) (string, error) {
			digest, err := registry.Resolver{}.Resolve(ctx, r)
			silent = r
			return digest, err
		})
	if code := writ.CodeOf(err); order.Deployment.Name == "" || code != writ.CodeUnreachable && code != writ.CodeRegistryBusy {
		return err
	}
	last := newestRevision(ctx, c, roster, order)
	if last == nil {
		return err
	}
	copied, signed := *order, signedDigests(last.Payload.Images)
	var flags []string
	failed := registry.ResolveImages(ctx, &copied, roster, more,
		func(ctx context.Context, r imageref.Reference) (string, error) {
			kept, has := signed[r.String()]
			switch {
			case r.Registry != silent.Registry:
				return registry.Resolver{}.Resolve(ctx, r)
			case !has:
				return "", err
			}
			flags = append(flags, "--image "+kept.String())
			return kept.Digest, nil
		})
	if failed != nil || len(flags) == 0 {
		return err
	}
	return writ.AsError(err).WithHint("if revision %d of %s has the image that you mean, sign its digest again: add %s",
		last.Number, order.Deployment.Name, strings.Join(flags, " "))
}

// newestRevision returns the newest revision of the deployment of an order, or nil if it is unknown, is not the base of
// the order, or its signer is revoked.
func newestRevision(
	ctx context.Context, c *client.Client, roster *identity.Roster, order *client.Order,
) *revision.Revision {
	d := revision.Deployment{
		Project: order.Project.ID, ProjectName: order.Project.Name, Datacenter: order.Datacenter, Name: order.Deployment.Name,
	}
	last, err := d.Read(ctx, c, roster, revision.Newest)
	if err != nil || last.Revoked != nil || order.Deployment.Base > 0 && last.Number != order.Deployment.Base {
		return nil
	}
	return last
}

// signedDigests maps references with a tag to those with their signed digests.
func signedDigests(images []string) map[string]imageref.Reference {
	signed := make(map[string]imageref.Reference)
	for _, text := range images {
		if r, err := imageref.Parse(text); err == nil {
			signed[r.Tagged().String()] = r
		}
	}
	return signed
}

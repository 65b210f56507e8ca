package cli

import (
	"context"

	"writ"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/revision"
	"writ/internal/meant"
)

// FindDeployment returns the deployment with a name, which must be unique in the selected project and datacenter.
func FindDeployment(
	ctx context.Context, env *Env, name, datacenter string,
) (*client.Client, revision.Deployment, error) {
	if !writ.ValidName(name) {
		return nil, revision.Deployment{}, writ.Errorf(writ.CodeUsage, "%q is not a valid name of a deployment", name).
			WithHint("`writ deployment list` shows the names")
	}
	c, err := env.Client()
	if err != nil {
		return nil, revision.Deployment{}, err
	}
	d, err := revision.Find(ctx, c, name, env.Flags.Project, datacenter)
	if writ.CodeOf(err) == writ.CodeNotFound && writ.AsError(err).Hint == "" {
		err = writ.Errorf(writ.CodeNotFound, "unknown deployment %s", name).
			WithHint("%s", meant.Among(name, SuggestDeployments(ctx, c), func(known string) string { return known },
				"`writ deployment list` shows the deployments with resources"))
	}
	return c, d, err
}

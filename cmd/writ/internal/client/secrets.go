package client

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"writ"
	"writ/coord/api"
	"writ/identity"
	"writ/identity/secret"
	"writ/internal/meant"
)

// List returns the secrets of a project in all datacenters, or in one if datacenter is set. An empty project means
// all projects. The item of a datacenter that did not answer holds the error.
func (c Secrets) List(
	ctx context.Context, datacenter writ.DatacenterID, project writ.ProjectID,
) ([]api.DatacenterSecrets, error) {
	list, err := api.Answer[api.SecretList](c.client.API.ListSecrets(ctx,
		&api.ListSecretsParams{Datacenter: api.Given(string(datacenter)), Project: api.Given(string(project))}))
	return list.Items, err
}

// Newest returns the newest version of each secret of a project in a datacenter, by name, including removed
// secrets.
func (c Secrets) Newest(
	ctx context.Context, datacenter writ.DatacenterID, project writ.ProjectID,
) (map[string]writ.Secret, error) {
	answers, err := c.List(ctx, datacenter, project)
	if err != nil {
		return nil, err
	}
	newest := make(map[string]writ.Secret)
	for _, a := range answers {
		if a.Datacenter != datacenter {
			continue
		}
		if a.Error != nil {
			return nil, a.Error
		}
		for _, s := range a.Secrets {
			if s.Project == project && s.Version > newest[s.Name].Version {
				newest[s.Name] = s
			}
		}
	}
	return newest, nil
}

// Resolve adds the newest version in the datacenter to each name. A name with a version, "db-password@3", stays
// unchanged. If all names have versions, it sends no request.
func (c Secrets) Resolve(
	ctx context.Context, datacenter *identity.Datacenter, project identity.Project, names []string,
) ([]string, error) {
	versions := versionsOf(names)
	var newest map[string]writ.Secret
	refs := make([]string, 0, len(versions))
	for _, name := range slices.Sorted(maps.Keys(versions)) {
		if versions[name] != "" {
			refs = append(refs, name+"@"+versions[name])
			continue
		}
		if newest == nil {
			var err error
			if newest, err = c.Newest(ctx, datacenter.ID, project.ID); err != nil {
				return nil, unresolved(name, err)
			}
		}
		s, ok := newest[name]
		if !ok || !s.Removed.IsZero() {
			return nil, writ.Errorf(writ.CodeSecretUnknown, "project %s has no secret %s in %s", project.Name, name,
				datacenter.Name).
				WithHint("%s", meant.Hint(name, slices.Sorted(maps.Keys(newest)),
					"set it with `writ secret set "+name+" --project "+project.Name+" --dc "+datacenter.Name+
						"`, or in every datacenter with --all-dcs"))
		}
		refs = append(refs, identity.SecretRef(name, s.Version))
	}
	return refs, nil
}

// FirstVersions returns names with versions. Names without a version get version 1.
func FirstVersions(names []string) []string {
	var refs []string
	for name, version := range versionsOf(names) {
		refs = append(refs, name+"@"+cmp.Or(version, "1"))
	}
	slices.Sort(refs)
	return refs
}

// versionsOf returns the versions by name, "" for names without a version.
func versionsOf(names []string) map[string]string {
	versions := make(map[string]string)
	for _, n := range names {
		if name, version, given := strings.Cut(n, "@"); given || versions[name] == "" {
			versions[name] = version
		}
	}
	return versions
}

// unresolved converts the error of a request for the newest version of a secret. If the datacenter cannot be reached,
// the hint explains how to sign without the request.
func unresolved(name string, err error) error {
	e := *writ.AsError(err)
	if e.Code != writ.CodeUnreachable && e.Code != writ.CodeDatacenterAway {
		return err
	}
	e.Message = "the newest version of the secret " + name + " is not known: " + e.Message
	e.Hint, e.Err = "if you know it, use --secret "+name+"@VERSION", errors.Unwrap(err)
	return &e
}

// Set encrypts a value for the supervisor's key in the roster, signs it as the next version of a secret and
// submits it.
func (c Secrets) Set(
	ctx context.Context, by *Person, datacenter writ.DatacenterID, project writ.ProjectID, name, value string,
) (api.StatementAnswer, error) {
	newest, err := c.Newest(ctx, datacenter, project)
	if err != nil {
		return api.StatementAnswer{}, err
	}
	d := by.Roster.Datacenter(datacenter)
	if d == nil {
		return api.StatementAnswer{}, writ.Errorf(writ.CodeDatacenterUnknown, "the roster has no datacenter %s", datacenter)
	}
	reader, err := secret.ForSupervisor(d.SupervisorKey)
	if err != nil {
		return api.StatementAnswer{}, err
	}
	label := secret.Label{
		Cluster: by.Roster.Cluster, Datacenter: datacenter, Project: project, Name: name, Version: newest[name].Version + 1,
	}
	ciphertext, err := secret.Encrypt(value, label, reader)
	if err != nil {
		return api.StatementAnswer{}, err
	}
	statement, err := aboutSecret(by, datacenter, project, newest[name].Version)
	if err != nil {
		return api.StatementAnswer{}, err
	}
	identity.SecretChange{Project: project, Name: name, Version: label.Version, Ciphertext: ciphertext}.Statement(
		&statement)
	return c.client.Statements.Decide(ctx, by, statement)
}

// aboutSecret starts a statement about a secret with its newest version. It takes the names from the roster.
func aboutSecret(
	by *Person, datacenter writ.DatacenterID, project writ.ProjectID, newest int,
) (identity.Statement, error) {
	p := by.Roster.Project(project)
	if p == nil {
		return identity.Statement{}, writ.Errorf(writ.CodeProjectUnknown, "the roster has no project %s", project).
			WithHint("`writ project list` lists the projects")
	}
	return identity.Statement{Datacenter: datacenter, Seen: identity.SeenSecret(project, p.Name, newest)}, nil
}

// Remove removes all versions of a secret up to version from a datacenter; 0 means the newest one.
func (c Secrets) Remove(
	ctx context.Context, by *Person, datacenter writ.DatacenterID, project writ.ProjectID, name string, version int,
) (api.StatementAnswer, error) {
	newest, err := c.Newest(ctx, datacenter, project)
	if err != nil {
		return api.StatementAnswer{}, err
	}
	have := newest[name].Version
	if have == 0 {
		return api.StatementAnswer{}, writ.Errorf(writ.CodeSecretUnknown, "the project has no secret %s in this datacenter",
			name).
			WithHint("%s", meant.Hint(name, slices.Sorted(maps.Keys(newest)), "`writ secret list` shows the secrets"))
	}
	if version == 0 {
		version = have
	}
	statement, err := aboutSecret(by, datacenter, project, have)
	if err != nil {
		return api.StatementAnswer{}, err
	}
	identity.SecretChange{Project: project, Name: name, Version: version}.Statement(&statement)
	return c.client.Statements.Decide(ctx, by, statement)
}

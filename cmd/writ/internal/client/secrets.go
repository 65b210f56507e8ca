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

// Secrets asks the datacenters which secrets of a project they have, one datacenter if it is given; "" stands for all projects. What
// could not be asked is in the error of its item.
func (c *Client) Secrets(ctx context.Context, datacenter writ.DatacenterID, project writ.ProjectID) ([]api.DatacenterSecrets, error) {
	list, err := api.Answer[api.SecretList](c.API.ListSecrets(ctx, &api.ListSecretsParams{Datacenter: api.Given(string(datacenter)), Project: api.Given(string(project))}))
	return list.Items, err
}

// NewestSecrets returns the newest version of each secret of a project in a datacenter, by name; also of those that were removed.
func (c *Client) NewestSecrets(ctx context.Context, datacenter writ.DatacenterID, project writ.ProjectID) (map[string]writ.Secret, error) {
	answers, err := c.Secrets(ctx, datacenter, project)
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

// ResolveSecrets returns names of secrets with the versions to sign: the newest that the datacenter has. A name that comes with its
// version, "db-password@3", is taken as it is; if all do, nobody is asked.
func (c *Client) ResolveSecrets(ctx context.Context, datacenter *identity.Datacenter, project identity.Project, names []string) ([]string, error) {
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
			if newest, err = c.NewestSecrets(ctx, datacenter.ID, project.ID); err != nil {
				return nil, unresolved(name, err)
			}
		}
		s, ok := newest[name]
		if !ok || !s.Removed.IsZero() {
			return nil, writ.Errorf(writ.CodeSecretUnknown, "project %s has no secret %s in %s", project.Name, name, datacenter.Name).
				WithHint("%s", meant.Hint(name, slices.Sorted(maps.Keys(newest)),
					"set it with `writ secret set "+name+" --project "+project.Name+" --dc "+datacenter.Name+"`, or in every datacenter with --all-dcs"))
		}
		refs = append(refs, identity.SecretRef(name, s.Version))
	}
	return refs, nil
}

// FirstVersions returns names of secrets with versions, as if each that comes without had been set once.
func FirstVersions(names []string) []string {
	var refs []string
	for name, version := range versionsOf(names) {
		refs = append(refs, name+"@"+cmp.Or(version, "1"))
	}
	slices.Sort(refs)
	return refs
}

// versionsOf returns the versions that are given with names, "" for names without.
func versionsOf(names []string) map[string]string {
	versions := make(map[string]string)
	for _, n := range names {
		if name, version, given := strings.Cut(n, "@"); given || versions[name] == "" {
			versions[name] = version
		}
	}
	return versions
}

// unresolved says how to sign without the datacenter.
func unresolved(name string, err error) error {
	e := *writ.AsError(err)
	if e.Code != writ.CodeUnreachable && e.Code != writ.CodeDatacenterAway {
		return err
	}
	e.Message = "the newest version of the secret " + name + " is not known: " + e.Message
	e.Hint, e.Err = "if you know it, say --secret "+name+"@VERSION", errors.Unwrap(err)
	return &e
}

// SetSecret encrypts a value to the supervisor of a datacenter, as the roster has it, signs it as the next version of a secret, and hands
// it in.
func (c *Client) SetSecret(ctx context.Context, by *Person, datacenter writ.DatacenterID, project writ.ProjectID, name, value string) (api.StatementAnswer, error) {
	newest, err := c.NewestSecrets(ctx, datacenter, project)
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
	label := secret.Label{Cluster: by.Roster.Cluster, Datacenter: datacenter, Project: project, Name: name, Version: newest[name].Version + 1}
	ciphertext, err := secret.Encrypt(value, label, reader)
	if err != nil {
		return api.StatementAnswer{}, err
	}
	statement, err := aboutSecret(by, datacenter, project, newest[name].Version)
	if err != nil {
		return api.StatementAnswer{}, err
	}
	identity.SecretChange{Project: project, Name: name, Version: label.Version, Ciphertext: ciphertext}.Statement(&statement)
	return c.Decide(ctx, by, statement)
}

// aboutSecret begins a statement about a secret whose newest version is this. The names are those of the roster.
func aboutSecret(by *Person, datacenter writ.DatacenterID, project writ.ProjectID, newest int) (identity.Statement, error) {
	p := by.Roster.Project(project)
	if p == nil {
		return identity.Statement{}, writ.Errorf(writ.CodeProjectUnknown, "the roster has no project %s", project).
			WithHint("`writ project list` shows them")
	}
	return identity.Statement{Datacenter: datacenter, Seen: identity.SeenSecret(project, p.Name, newest)}, nil
}

// RemoveSecret removes a secret from a datacenter up to a version, 0 for all that there are now.
func (c *Client) RemoveSecret(ctx context.Context, by *Person, datacenter writ.DatacenterID, project writ.ProjectID, name string, version int) (api.StatementAnswer, error) {
	newest, err := c.NewestSecrets(ctx, datacenter, project)
	if err != nil {
		return api.StatementAnswer{}, err
	}
	have := newest[name].Version
	if have == 0 {
		return api.StatementAnswer{}, writ.Errorf(writ.CodeSecretUnknown, "the project has no secret %s in this datacenter", name).
			WithHint("%s", meant.Hint(name, slices.Sorted(maps.Keys(newest)), "`writ secret list` shows what there is"))
	}
	if version == 0 {
		version = have
	}
	statement, err := aboutSecret(by, datacenter, project, have)
	if err != nil {
		return api.StatementAnswer{}, err
	}
	identity.SecretChange{Project: project, Name: name, Version: version}.Statement(&statement)
	return c.Decide(ctx, by, statement)
}

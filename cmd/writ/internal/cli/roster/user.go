package roster

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/ssh"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/terminal"
	"writ/identity"
)

func userCommand(env *cli.Env) *cobra.Command {
	return cli.Family("user", "Manage people, machines and their roles", userListCommand(env), userAddCommand(env),
		userRemoveCommand(env))
}

// userView is a principal as recorded in the roster.
type userView struct {
	Name     string                 `json:"name"`
	Kind     identity.PrincipalKind `json:"kind"`
	State    identity.State         `json:"state"`
	Operator bool                   `json:"root_operator"`
	Keys     []keyView              `json:"keys"`
	Roles    []roleView             `json:"roles"`
}

type keyView struct {
	Fingerprint string         `json:"fingerprint"`
	State       identity.State `json:"state"`
}

type roleView struct {
	Role        identity.Role `json:"role"`
	Project     string        `json:"project"` // project name, "*" for all projects
	Destructive bool          `json:"destructive"`
	Expires     time.Time     `json:"expires,omitzero"`
}

func (r roleView) String() string {
	text := string(r.Role) + " on " + r.Project
	if r.Destructive {
		text += " (destructive)"
	}
	if until := expiry(r.Expires, time.Now()); strings.HasPrefix(until, "expired") {
		text += ", " + until
	} else if until != "" {
		text += " until " + until
	}
	return text
}

func userListCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the people and machines of the roster",
		Example: "  writ user list",
		Args:    cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, roster, err := env.Cluster(cmd.Context())
			if err != nil {
				return err
			}
			users := usersOf(roster)
			return env.Print(terminal.List(users, users, func(u userView) string { return u.Name },
				cli.Column("USER", func(u userView) string { return u.Name }),
				cli.Column("KIND", func(u userView) string { return string(u.Kind) }),
				cli.Column("STATE", func(u userView) string { return string(u.State) }),
				cli.Column("ROOT OPERATOR", func(u userView) string { return cli.Mark(u.Operator) }),
				cli.Column("ROLES", func(u userView) string { return joined(u.Roles) }),
				cli.Wide("KEYS", func(u userView) string { return keyList(u.Keys) }),
			))
		},
	}
}

func usersOf(r *identity.Roster) []userView {
	users := []userView{}
	for _, p := range r.Principals {
		u := userView{
			Name: p.Name, Kind: p.Kind, State: p.State, Operator: slices.Contains(r.Operators, p.Name), Keys: []keyView{},
			Roles: []roleView{},
		}
		for _, k := range p.Keys {
			u.Keys = append(u.Keys, keyView{ssh.FingerprintSHA256(k.Key), k.State})
		}
		for _, b := range r.Bindings {
			if b.Principal != p.Name {
				continue
			}
			u.Roles = append(u.Roles, roleView{b.Role, identity.ProjectName(r, b.Project), b.Destructive, b.Expires})
		}
		users = append(users, u)
	}
	return users
}

func joined(roles []roleView) string {
	var texts []string
	for _, r := range roles {
		texts = append(texts, r.String())
	}
	return strings.Join(texts, ", ")
}

func keyList(keys []keyView) string {
	var texts []string
	for _, k := range keys {
		text := k.Fingerprint
		if k.State != identity.Active {
			text += " (" + string(k.State) + ")"
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, " ")
}

func userAddCommand(env *cli.Env) *cobra.Command {
	var key string
	var roles, projects []string
	var destructive, ci bool
	var valid time.Duration
	var adopt adoptFlags
	c := &cobra.Command{
		Use:   "add NAME",
		Short: "Add a person or a machine to the roster, or give them more keys and roles",
		Long: `Signs the next version of the roster. You must be a root operator. For a person in the roster, it adds
another key or role.

Roles: A viewer reads. A deployer submits scripts and cancels runs. With --destructive, a deployer also submits
scripts that delete or overwrite data. An operator cancels runs, takes nodes out of service and labels them. An
admin does the same with nodes, admits and removes them, creates tokens and sets secrets.

Nodes and tokens belong to no project. For them you need a role on all projects: --project '*'.`,
		Example: `  writ user add bob --key bob.pub --role deployer --project web-shop
  writ user add ci-web --ci --key "ssh-ed25519 AAAA…" --role deployer --project web-shop
  writ user add deploy --ci --role deployer --project web-shop
  writ user add carol --key carol.pub --role operator --role admin --project '*'`,
		Args: cli.Exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			public, err := publicKey(env, key)
			if err != nil {
				return err
			}
			kind := identity.Person
			if ci {
				kind = identity.CI
			}
			if destructive && !slices.Contains(roles, string(identity.Deployer)) {
				return writ.Errorf(writ.CodeUsage, "--destructive belongs to --role deployer")
			}
			grant := client.Grant{Destructive: destructive}
			if valid > 0 {
				grant.Expires = time.Now().Add(valid).UTC().Truncate(time.Second)
			}
			if grant.Roles, err = parseRoles(roles); err != nil {
				return err
			}
			c, err := env.Client()
			if err != nil {
				return err
			}
			if len(projects) == 0 {
				projects = []string{c.Context.Project}
			}
			return amend(cmd.Context(), env, c, adopt, func(next *identity.Roster) error {
				if grant.Projects, err = projectIDs(next, projects); err != nil {
					return err
				}
				return client.AddPrincipal(next, args[0], kind, public, grant)
			}, func(r client.Amended) (amendment, error) { return showUser(env, r, args[0]) })
		},
	}
	f := c.Flags()
	f.StringVar(&key, "key", "",
		"public key of the person or machine: a file with one key, or the key itself, without options")
	f.StringSliceVar(&roles, "role", nil, "viewer, deployer, operator or admin (repeatable)")
	f.StringSliceVar(&projects, "project", nil,
		"name or id of a project, '*' for all (repeatable); by default the project of the context")
	f.BoolVar(&destructive, "destructive", false, "a deployer may submit scripts that delete or overwrite data")
	f.BoolVar(&ci, "ci", false, "add a machine; it needs no key if an authority issues its certificates")
	f.DurationVar(&valid, "valid", 0, "validity of the roles; unlimited if unset")
	cli.InRange(f, "valid", &valid, time.Second, cli.LongestGrant)
	adopt.add(c)
	suggestRoles(c)
	return c
}

func userRemoveCommand(env *cli.Env) *cobra.Command {
	var fingerprint string
	var revoke, yes bool
	var roles, projects []string
	var adopt adoptFlags
	c := &cobra.Command{
		Use:   "remove NAME",
		Short: "Remove a person or a machine, one of their keys or a role from the roster",
		Long: `Signs the next version of the roster. You must be a root operator. Datacenters accept no new submission or
statement of this person. Accepted runs continue. With --revoke, every open run of this person is cancelled. Use it
if the key may be stolen. The command asks before it revokes, because a revocation is permanent.

Then the command waits until every datacenter has signed that the new roster is in force there. It names the
datacenters without this signature. They still accept signatures of the person.

A name is never used again, so an old signature is never attributed to another person.

--role and --project remove only these roles. The person, the keys and all other roles stay.`,
		Example: `  writ user remove bob
  writ user remove ci-web --revoke
  writ user remove alice --only SHA256:… --revoke
  writ user remove carol --role deployer --project web-shop`,
		Args: cli.Exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(roles) == 0) != (len(projects) == 0) {
				return writ.Errorf(writ.CodeUsage, "--role and --project belong together").
					WithHint("`writ user remove %s --role ROLE --project PROJECT`; without both, all of %s is removed", args[0], args[0])
			}
			ending, err := parseRoles(roles)
			if err != nil {
				return err
			}
			c, err := env.Client()
			if err != nil {
				return err
			}
			state := identity.Removed
			if revoke {
				if err := cli.Agree(env, revocation(args[0], fingerprint), yes); err != nil {
					return err
				}
				state = identity.Revoked
			}
			return amend(cmd.Context(), env, c, adopt, func(next *identity.Roster) error {
				if len(ending) == 0 {
					return client.RemovePrincipal(next, args[0], fingerprint, state)
				}
				in, err := projectIDs(next, projects)
				if err != nil {
					return err
				}
				return client.Unbind(next, args[0], ending, in)
			}, func(r client.Amended) (amendment, error) {
				m, err := showUser(env, r, args[0])
				if len(ending) > 0 {
					m.before = "still accepts signatures of " + args[0] + " in the role " + strings.Join(roles, ", ")
				}
				if fingerprint != "" {
					m.effect = "signatures by the key " + fingerprint + " are rejected from now on"
					m.before = "still accepts signatures by the key " + fingerprint
				}
				return m, err
			})
		},
	}
	f := c.Flags()
	f.StringVar(&fingerprint, "only", "", "fingerprint of the only key to remove, instead of all")
	f.BoolVar(&revoke, "revoke", false, "also cancel open runs of this person or machine, because the key may be stolen")
	f.BoolVar(&yes, "yes", false, "sign --revoke without asking")
	f.StringSliceVar(&roles, "role", nil, "only this role, in --project (repeatable)")
	f.StringSliceVar(&projects, "project", nil,
		"name or id of a project of --role, '*' for the role on all projects (repeatable)")
	suggestRoles(c)
	for _, other := range []string{"only", "revoke"} {
		c.MarkFlagsMutuallyExclusive("role", other)
	}
	adopt.add(c)
	return c
}

// revocation describes the effect of user remove --revoke.
func revocation(name, fingerprint string) string {
	if fingerprint != "" {
		return fmt.Sprintf("revoke the key %s of %s for ever, and cancel the open runs that it signed", fingerprint, name)
	}
	return fmt.Sprintf("revoke %s for ever, and cancel all open runs of %s", name, name)
}

func suggestRoles(c *cobra.Command) {
	cli.OneOf(c, "role", string(identity.Viewer), string(identity.Deployer), string(identity.Operator),
		string(identity.Admin))
}

func parseRoles(names []string) ([]identity.Role, error) {
	var roles []identity.Role
	for _, n := range names {
		if _, ok := identity.RoleActions[identity.Role(n)]; !ok {
			return nil, writ.Errorf(writ.CodeUsage, "unknown role %q", n).
				WithHint("the roles are viewer, deployer, operator and admin")
		}
		roles = append(roles, identity.Role(n))
	}
	return roles, nil
}

func projectIDs(r *identity.Roster, names []string) ([]writ.ProjectID, error) {
	var ids []writ.ProjectID
	for _, n := range names {
		if n == string(identity.AllProjects) {
			ids = append(ids, identity.AllProjects)
			continue
		}
		if n == "" {
			n = client.DefaultProject
		}
		p, err := client.Project(r, n)
		if err != nil {
			return nil, err
		}
		ids = append(ids, p.ID)
	}
	return ids, nil
}

// showUser shows a principal as recorded in the signed roster. It returns the texts about the change.
func showUser(env *cli.Env, r client.Amended, name string) (amendment, error) {
	users := usersOf(r.Roster)
	i := slices.IndexFunc(users, func(u userView) bool { return u.Name == name })
	if i < 0 {
		return amendment{}, fmt.Errorf("show user: version %d of the roster does not have %s", r.Version, name)
	}
	u := users[i]
	m := amendment{change: name + " has the keys and roles below"}
	switch {
	case u.State != identity.Active:
		m = amendment{
			change: fmt.Sprintf("%s is %s", name, u.State),
			effect: fmt.Sprintf("signatures of %[1]s are rejected from now on; the name %[1]s is never used again, so add a successor under another name, such as %[1]s-2", name),
			before: "still accepts signatures of " + name,
		}
	case len(u.Roles) == 0:
		m.effect = fmt.Sprintf("%s has no role: writ user add %s --role ROLE --project PROJECT", name, name)
	case len(u.Keys) == 0 && !client.MayHaveCertificate(r.Roster, name):
		m.effect = fmt.Sprintf("%s has no key; name an authority that makes certificates for it with `writ ca add`, or give it a key with --key", name)
	}
	showSigned(env, r, m)
	return m, env.Print(terminal.Record(u, u.Name,
		terminal.Field{Title: "user", Value: u.Name},
		terminal.Field{Title: "kind", Value: string(u.Kind)},
		terminal.Field{Title: "state", Value: string(u.State)},
		terminal.Field{Title: "keys", Value: keyList(u.Keys)},
		terminal.Field{Title: "roles", Value: joined(u.Roles)}))
}

func projectCommand(env *cli.Env) *cobra.Command {
	return cli.Family("project", "Show projects, and add them", projectListCommand(env), projectAddCommand(env))
}

// projectView is a project with the name of its tenant.
type projectView struct {
	ID     writ.ProjectID `json:"id"`
	Name   string         `json:"name"`
	Tenant string         `json:"tenant,omitempty"`
}

func projectsOf(r *identity.Roster) []projectView {
	projects := []projectView{}
	for _, p := range r.Projects {
		projects = append(projects, projectView{ID: p.ID, Name: p.Name, Tenant: identity.TenantName(r, &p)})
	}
	return projects
}

func projectListCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the projects of the roster",
		Example: "  writ project list",
		Args:    cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, roster, err := env.Cluster(cmd.Context())
			if err != nil {
				return err
			}
			projects := projectsOf(roster)
			return env.PrintList(terminal.List(projects, projects, func(p projectView) string { return p.Name },
				cli.Column("PROJECT", func(p projectView) string { return p.Name }),
				cli.Column("TENANT", func(p projectView) string { return p.Tenant }),
				cli.Whole(cli.Column("ID", func(p projectView) string { return string(p.ID) })),
			), "the roster names no project: `writ project add` adds the first")
		},
	}
}

func projectAddCommand(env *cli.Env) *cobra.Command {
	var tenant string
	var adopt adoptFlags
	c := &cobra.Command{
		Use:   "add NAME",
		Short: "Add a project to the roster",
		Example: `  writ project add web-shop
  writ project add web-shop --tenant acme`,
		Args: cli.Exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, name := range []string{args[0], tenant} {
				if name == "" {
					continue
				}
				if err := checkNewName("project or tenant", name); err != nil {
					return err
				}
			}
			c, err := env.Client()
			if err != nil {
				return err
			}
			return amend(cmd.Context(), env, c, adopt,
				func(next *identity.Roster) error { return client.AddProject(next, args[0], tenant) },
				func(r client.Amended) (amendment, error) { return showProject(env, r, args[0], tenant) })
		},
	}
	c.Flags().StringVar(&tenant, "tenant", client.DefaultProject, "tenant of the project; a new tenant is created")
	adopt.add(c)
	return c
}

// showProject shows a project as recorded in the signed roster. It returns the texts about the change.
func showProject(env *cli.Env, r client.Amended, name, tenant string) (amendment, error) {
	projects := projectsOf(r.Roster)
	i := slices.IndexFunc(projects, func(p projectView) bool { return p.Name == name && p.Tenant == tenant })
	if i < 0 {
		return amendment{}, fmt.Errorf("show project: version %d of the roster does not have %s", r.Version, name)
	}
	m := amendment{change: "project " + name + " of the tenant " + tenant}
	showSigned(env, r, m)
	p := projects[i]
	return m, env.Print(terminal.Record(p, p.Name,
		terminal.Field{Title: "project", Value: p.Name},
		terminal.Field{Title: "tenant", Value: p.Tenant},
		terminal.Field{Title: "id", Value: string(p.ID)}))
}

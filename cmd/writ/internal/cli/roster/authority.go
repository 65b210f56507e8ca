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
	"writ/sal/catalog"
)

// certificateLife is the default maximum validity of a certificate. A root operator may set another maximum.
const certificateLife = time.Hour

func authorityCommand(env *cli.Env) *cobra.Command {
	return cli.Family("ca", "Manage the authorities for SSH certificates", authorityListCommand(env),
		authorityAddCommand(env), authorityRemoveCommand(env))
}

// authorityView is an authority as recorded in the roster.
type authorityView struct {
	Name        string              `json:"name"`
	State       identity.State      `json:"state"`
	Fingerprint string              `json:"fingerprint"`
	Users       []string            `json:"users"`
	KeyIDs      map[string][]string `json:"key_ids"` // patterns by user; a user without patterns accepts any key id
	MaxLifetime string              `json:"max_lifetime"`
	Expires     time.Time           `json:"expires,omitzero"`
}

func (v authorityView) users() string {
	var texts []string
	for _, u := range v.Users {
		if patterns := v.KeyIDs[u]; len(patterns) > 0 {
			u += " (" + strings.Join(patterns, " ") + ")"
		}
		texts = append(texts, u)
	}
	return strings.Join(texts, ", ")
}

func authoritiesOf(r *identity.Roster) []authorityView {
	views := []authorityView{}
	for _, a := range r.Authorities {
		views = append(views, authorityView{
			a.Name, a.State, ssh.FingerprintSHA256(a.Key), a.Principals, a.KeyIDs, catalog.ShortDuration(a.MaxLife()), a.Expires,
		})
	}
	return views
}

func authorityListCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the authorities whose SSH certificates may sign",
		Example: "  writ ca list",
		Args:    cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, roster, err := env.Cluster(cmd.Context())
			if err != nil {
				return err
			}
			all := authoritiesOf(roster)
			return env.PrintList(terminal.List(all, all, func(v authorityView) string { return v.Name },
				cli.Column("AUTHORITY", func(v authorityView) string { return v.Name }),
				cli.Column("STATE", func(v authorityView) string { return string(v.State) }),
				cli.Column("USERS (KEY IDS)", authorityView.users),
				cli.Column("MAX LIFETIME", func(v authorityView) string { return v.MaxLifetime }),
				cli.Column("EXPIRES", func(v authorityView) string { return expiry(v.Expires, time.Now()) }),
				cli.Wide("KEY", func(v authorityView) string { return v.Fingerprint }),
			), "the roster names no authority: `writ ca add` adds the first")
		},
	}
}

// expiry formats the end of a validity: "2026-11-29", on the last day "2026-11-29 20:38 UTC", and after the end
// "expired 2026-11-29 20:38 UTC". It returns "" for the zero time.
func expiry(end, now time.Time) string {
	const minute = "2006-01-02 15:04 UTC"
	switch {
	case end.IsZero():
		return ""
	case !now.Before(end):
		return "expired " + end.UTC().Format(minute)
	case end.Sub(now) < 24*time.Hour:
		return end.UTC().Format(minute)
	}
	return end.UTC().Format(time.DateOnly)
}

func authorityAddCommand(env *cli.Env) *cobra.Command {
	var key string
	var users, keyIDs []string
	var life, valid time.Duration
	var adopt adoptFlags
	c := &cobra.Command{
		Use:   "add NAME",
		Short: "Add an authority for SSH certificates of machines, or change its limits",
		Long: `Signs the next version of the roster. You must be a root operator. From then on, user certificates of the
authority may sign for the machines in --user. Such a certificate has the name of the machine as a principal. Create
it with ssh-keygen -s, Vault, step-ca or another program. It is valid for at most --max-lifetime, has no critical
options, and certifies a key that was created for its job.

--key-id limits the certificates for these machines by their key id. A trailing star matches any end. At least three
characters must precede the star, and the last of them must not be a letter or digit. Without --key-id the authority
alone decides. For an authority in the roster, --key-id replaces the earlier key ids of these machines.

A certificate can submit scripts, cancel and resume runs and read, within the roles of its machine. It cannot use
the role admin or sign a roster.`,
		Example: `  writ user add deploy --ci --role deployer --project web-shop
  writ ca add github --key ca.pub --user deploy --key-id 'repo:acme/shop:*' --max-lifetime 15m --valid 2160h
  writ ca add github --valid 2160h`,
		Args: cli.Exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkNewName("certificate authority", args[0]); err != nil {
				return err
			}
			if life%time.Second != 0 {
				return writ.Errorf(writ.CodeUsage, "--max-lifetime: %s has parts of a second", life).WithHint("use whole seconds")
			}
			public, err := publicKey(env, key)
			if err != nil {
				return err
			}
			grant := client.AuthorityGrant{Principals: users, KeyIDs: keyIDs, Life: life}
			grant.AnyKeyID = len(keyIDs) == 1 && keyIDs[0] == "*"
			if valid > 0 {
				grant.Expires = time.Now().Add(valid).UTC().Truncate(time.Second)
			}
			c, err := env.Client()
			if err != nil {
				return err
			}
			return amend(cmd.Context(), env, c, adopt, func(next *identity.Roster) error {
				if next.Authorities.Named(args[0]) == nil && grant.Life == 0 {
					grant.Life = certificateLife
				}
				return client.AddAuthority(next, args[0], public, grant)
			}, func(r client.Amended) (amendment, error) { return showAuthority(env, r, args[0]) })
		},
	}
	f := c.Flags()
	f.StringVar(&key, "key", "", "public key of the authority: a file with one key, or the key itself, without options")
	f.StringSliceVar(&users, "user", nil, "machine of the roster that its certificates may stand for (repeatable)")
	f.StringArrayVar(&keyIDs, "key-id", nil,
		"key id of certificates for these machines, or a prefix and a star; '*' alone for all (repeatable)")
	f.DurationVar(&life, "max-lifetime", 0,
		"maximum validity of a certificate, at most 24h; 1h for a new authority")
	cli.InRange(f, "max-lifetime", &life, time.Minute, identity.MaxCertificateLife)
	f.DurationVar(&valid, "valid", 0, "validity of the authority from now on; unlimited if unset")
	cli.InRange(f, "valid", &valid, time.Second, cli.LongestGrant)
	adopt.add(c)
	return c
}

func authorityRemoveCommand(env *cli.Env) *cobra.Command {
	var revoke bool
	var adopt adoptFlags
	c := &cobra.Command{
		Use:   "remove NAME",
		Short: "Remove an authority; its certificates become invalid",
		Long: `Signs the next version of the roster. You must be a root operator. Datacenters accept no new submission or
statement signed with a certificate of this authority. Accepted runs continue. With --revoke, every open run that
was signed with such a certificate is cancelled. Use it if the authority's key may be stolen.

Then the command waits until every datacenter has signed that the new roster is in force there.

A single certificate cannot be revoked; it expires by itself. The name and the key are never used again.`,
		Example: `  writ ca remove github
  writ ca remove github --revoke`,
		Args: cli.Exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := env.Client()
			if err != nil {
				return err
			}
			state := identity.Removed
			if revoke {
				state = identity.Revoked
			}
			return amend(cmd.Context(), env, c, adopt,
				func(next *identity.Roster) error { return client.RemoveAuthority(next, args[0], state) },
				func(r client.Amended) (amendment, error) { return showAuthority(env, r, args[0]) })
		},
	}
	c.Flags().BoolVar(&revoke, "revoke", false,
		"also cancel the open runs that its certificates signed, because its key may be stolen")
	adopt.add(c)
	return c
}

// showAuthority shows an authority as recorded in the signed roster. It returns the texts about the change.
func showAuthority(env *cli.Env, r client.Amended, name string) (amendment, error) {
	all := authoritiesOf(r.Roster)
	v := all[slices.IndexFunc(all, func(v authorityView) bool { return v.Name == name })]
	m := amendment{change: "the authority " + name + " has the key and limits below"}
	if v.State != identity.Active {
		m = amendment{
			change: fmt.Sprintf("the authority %s is %s", name, v.State),
			effect: "signatures by its certificates are rejected from now on",
			before: "still accepts signatures by certificates of " + name,
		}
	}
	showSigned(env, r, m)
	return m, env.Print(terminal.Record(v, v.Name,
		terminal.Field{Title: "authority", Value: v.Name},
		terminal.Field{Title: "state", Value: string(v.State)},
		terminal.Field{Title: "key", Value: v.Fingerprint},
		terminal.Field{Title: "users", Value: v.users()},
		terminal.Field{Title: "max lifetime", Value: v.MaxLifetime},
		terminal.Field{Title: "expires", Value: expiry(v.Expires, time.Now())}))
}

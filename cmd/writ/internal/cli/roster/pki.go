package roster

import (
	"time"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/terminal"
	"writ/coord/api"
	"writ/identity"
)

// warnBefore is the remaining validity below which a certificate is overdue for renewal. A certificate for 90 days is
// renewed after 60.
const warnBefore = 15 * 24 * time.Hour

func pkiCommand(env *cli.Env) *cobra.Command {
	return cli.Family("pki", "Show certificates, and replace them", pkiShowCommand(env), pkiRotateCommand(env))
}

// shownCertificate is one certificate with its owner.
type shownCertificate struct {
	Owner string // name of the coordinator or datacenter
	writ.Certificate
}

func pkiShowCommand(env *cli.Env) *cobra.Command {
	var datacenter string
	c := &cobra.Command{
		Use:   "show",
		Short: "Show the certificates of the coordinator and of the datacenters",
		Long: `Lists the certificates with their owners, expiry times and renewal times. Processes issue and renew them by
themselves. A node needs no certificate: it uses the key with which it joined.

The owners report these data about themselves. Clients trust only the roster.`,
		Example: "  writ pki show\n  writ pki show --dc dc1 -o json",
		Args:    cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := env.Client()
			if err != nil {
				return err
			}
			list, err := api.Answer[api.CertificateList](c.API.ListCertificates(cmd.Context(),
				&api.ListCertificatesParams{Datacenter: api.Given(datacenter)}))
			if err != nil {
				return err
			}
			asked, err := cli.Answered(env, list.Items,
				func(o api.OwnerCertificates) (string, *writ.Error) { return o.Name, o.Error })
			if err != nil {
				return err
			}
			var all []shownCertificate
			for _, owner := range asked {
				for _, one := range owner.Certificates {
					all = append(all, shownCertificate{owner.Name, one})
					if left := time.Until(one.Until); left < warnBefore {
						env.Warn("the certificate of the %s %s ends at %s and is not renewed: read the log of its owner",
							owner.Name, one.Of, cli.Clock(one.Until))
					}
				}
			}
			return env.PrintList(terminal.List(list, all, func(c shownCertificate) string { return c.Name },
				cli.Column("OWNER", func(c shownCertificate) string { return c.Owner }),
				cli.Column("OF", func(c shownCertificate) string { return c.Of }),
				cli.Wide("FROM", func(c shownCertificate) string { return cli.Clock(c.From) }),
				cli.Whole(cli.Column("UNTIL", func(c shownCertificate) string { return cli.Clock(c.Until) })),
				cli.Whole(cli.Column("RENEWED FROM", func(c shownCertificate) string { return cli.Clock(c.Renew) })),
				cli.Wide("AUTHORITY SINCE", func(c shownCertificate) string { return cli.Clock(c.Authority) }),
				cli.Wide("ENDED BEFORE", func(c shownCertificate) string { return cli.Clock(c.Floor) }),
				cli.Wide("NAME", func(c shownCertificate) string { return c.Name }),
			),
				cli.UnlessSelected(cmd,
					"no certificate is known, and on loopback none is needed: `writ coordinator add` gives a coordinator an address with TLS"))
		},
	}
	cli.DatacenterFlag(env, c, &datacenter, "only certificates of this datacenter")
	return c
}

func pkiRotateCommand(env *cli.Env) *cobra.Command {
	var datacenter string
	var reason cli.ReasonFlag
	c := &cobra.Command{
		Use:   "rotate",
		Short: "Replace the certificates of a datacenter, and invalidate the old ones",
		Long: `Signs that all certificates of a datacenter that were issued before now are invalid. Its supervisor creates
a new authority, and with it new certificates for itself and for Redis. Open connections continue. A node that is
offline learns of the change when it connects. You need the role admin.

Use it after a theft of a certificate's key, for example from the directory of Redis. It does not help against a
theft of the supervisor's own key, which can create new authorities. That key is in the memory of the supervisor and
next to its journal. In that case, sign a new key for the datacenter into the roster. A node remembers the invalid
certificates across restarts.`,
		Example: "  writ pki rotate --dc dc1 --reason \"the key of Redis was in a backup\"",
		Args:    cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cli.DecideIn(cmd.Context(), env, datacenter, func(dc *identity.Datacenter) identity.Statement {
				return identity.Statement{
					Subject: "datacenter/" + string(dc.ID), Seen: identity.Seen{Name: dc.Name}, Decision: identity.DecisionRotate,
					Reason: string(reason),
				}
			})
		},
	}
	cli.DatacenterFlag(env, c, &datacenter, "name or id of the datacenter")
	reason.Add(c, "")
	return c
}

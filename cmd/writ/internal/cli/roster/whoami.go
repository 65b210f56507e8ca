package roster

import (
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/ssh"

	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/terminal"
	"writ/identity"
)

// selfView is the signer as recorded in the roster.
type selfView struct {
	Name        string                 `json:"name"`
	Kind        identity.PrincipalKind `json:"kind"`
	Operator    bool                   `json:"root_operator"`
	Key         string                 `json:"key"` // fingerprint of the key, or of the certificate's key
	Certificate *identity.Certificate  `json:"certificate,omitempty"`
	Roles       []roleView             `json:"roles"`
}

func whoamiCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "whoami",
		Short: "Show your name in the roster, and your roles",
		Long: `Shows the owner of the signing key or certificate in the roster, and the roles of that person or machine.
The command signs no text. For a certificate it shows the key id, the authority and the expiry time. It fails if
signatures with the certificate are not accepted now.`,
		Example: "  writ whoami\n  writ whoami --key job_ed25519",
		Args:    cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, roster, err := env.Cluster(cmd.Context())
			if err != nil {
				return err
			}
			by, err := c.Keys.Owner(cmd.Context(), roster)
			if err != nil {
				return err
			}
			users := usersOf(roster)
			u := users[slices.IndexFunc(users, func(u userView) bool { return u.Name == by.Name })]
			v := selfView{u.Name, u.Kind, u.Operator, cli.Fingerprint(by.Key), by.Certificate(roster), u.Roles}
			if cert, ok := by.Key.(*ssh.Certificate); ok {
				v.Key = cli.Fingerprint(cert.Key)
			}
			fields := []terminal.Field{
				{Title: "user", Value: cli.SignedBy(v.Name, v.Certificate)},
				{Title: "kind", Value: string(v.Kind)},
				{Title: "state", Value: string(u.State)},
				{Title: "root operator", Value: cli.Mark(v.Operator)},
				{Title: "key", Value: v.Key},
				{Title: "roles", Value: joined(v.Roles)},
			}
			if v.Certificate != nil {
				fields = append(fields, terminal.Field{Title: "certificate ends", Value: cli.Clock(v.Certificate.Until)})
			}
			if err := env.Print(terminal.Record(v, v.Name, fields...)); err != nil {
				return err
			}
			return by.Counts(roster, time.Now())
		},
	}
}

package admission

import (
	"cmp"
	"context"
	"fmt"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/cli/signing"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/terminal"
	"writ/coord/api"
	"writ/identity"
)

// newToken is the output of `writ token create`, the only place that shows the token.
type newToken struct {
	Token      string            `json:"token"`
	ID         string            `json:"id"`
	Datacenter writ.DatacenterID `json:"datacenter"`
	Role       string            `json:"role"`
	Expires    time.Time         `json:"expires"`
	Uses       int               `json:"uses"`
}

// tokenFlags hold the properties of a new token.
type tokenFlags struct {
	datacenter string
	role       string
	validity   time.Duration // 0 means the default of the role
	uses       int
}

func tokenCommand(env *cli.Env) *cobra.Command {
	return cli.Family("token", "Create, list and revoke join tokens for nodes", tokenCreateCommand(env),
		tokenListCommand(env), tokenRevokeCommand(env))
}

func tokenCreateCommand(env *cli.Env) *cobra.Command {
	var flags tokenFlags
	c := &cobra.Command{
		Use:   "create",
		Short: "Create a token that admits a node to a datacenter, and print it",
		Long: `Creates a token that admits one node, or the number of nodes in --uses. The command prints the token once.
The datacenter can verify the token but does not store it.

The holder of the token can add other machines until the token is used up or expires. Limit it to few nodes and a
short time.

With --role boot-server the token admits no node. A boot server uses it to report starting machines ("writ boot
serve --report"), until it expires or is revoked. Each boot server needs its own token.`,
		Example: "  writ token create --dc dc1 > n1.token\n  writ runner --data ./n1 --name n1 --supervisor http://127.0.0.1:7441 --redis redis://127.0.0.1:6379/0 --join @n1.token\n" +
			"  writ token create --dc dc1 --uses 20 --valid 30m > rack.token\n  writ token create --dc dc1 --role boot-server > boot.token",
		Args: cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.ShowsTokens(env); err != nil {
				return err
			}
			// A write to a reader that has exited must return an error, so that the token is revoked. The same applies to the
			// note about the token.
			signal.Ignore(syscall.SIGPIPE)
			t, err := createToken(cmd.Context(), env, flags)
			if err != nil {
				return err
			}
			return handOver(cmd.Context(), env, t)
		},
	}
	cli.DatacenterFlag(env, c, &flags.datacenter, "name or id of the datacenter")
	c.Flags().StringVar(&flags.role, "role", identity.TokenRoleNode, "purpose of the token: node or boot-server")
	cli.OneOf(c, "role", identity.TokenRoleNode, identity.TokenRoleBoot)
	c.Flags().DurationVar(&flags.validity, "valid", 0,
		"validity: 1h if unset, at most 24h. For a boot server 2160h, at most 8784h")
	cli.InRange(c.Flags(), "valid", &flags.validity, time.Second, identity.MaxBootTokenValidity)
	c.Flags().IntVar(&flags.uses, "uses", 1, "number of nodes that the token admits, at most 1000")
	cli.InRange(c.Flags(), "uses", &flags.uses, 1, writ.MaxTokenUses)
	return c
}

// handOver prints a new token. If that fails, it revokes the token, because an unseen token would still admit a node.
func handOver(ctx context.Context, env *cli.Env, t newToken) error {
	err := env.Print(terminal.View{Data: t, Names: []string{t.ID}, Text: func(bool) string { return t.Token + "\n" }})
	if err == nil {
		return nil
	}
	if failed := revokeUnseen(ctx, env, t); failed != nil {
		return writ.Errorf(writ.CodeUsage,
			"the token %s cannot be printed (%v) and could not be revoked (%v), so it is still valid", t.ID, err, failed).
			WithHint("writ token revoke %s --dc %s", t.ID, t.Datacenter)
	}
	return writ.Errorf(writ.CodeUsage, "the token %s cannot be printed (%v), so it was revoked", t.ID, err).
		WithHint("create another token, and write the output to a file or terminal that accepts it")
}

// revokeUnseen revokes a token. It prints no result, because the output is broken.
func revokeUnseen(ctx context.Context, env *cli.Env, t newToken) error {
	c, err := env.Client()
	if err != nil {
		return err
	}
	s := revocation(t.ID, "it could not be printed")
	s.Datacenter = t.Datacenter
	_, _, err = cli.Decision(ctx, env, c, s)
	return err
}

// revocation returns the statement that revokes a token.
func revocation(id, reason string) identity.Statement {
	return identity.Statement{Subject: "token/" + id, Decision: identity.DecisionRevoke, Reason: reason}
}

// check rejects flags that are invalid for a token, and sets the defaults of the role.
func (f *tokenFlags) check() error {
	most := identity.MaxTokenValidityOf(f.role)
	if most == 0 {
		return writ.Errorf(writ.CodeUsage, "--role %q is not possible", f.role).
			WithHint("%s or %s", identity.TokenRoleNode, identity.TokenRoleBoot)
	}
	ofBoot := f.role == identity.TokenRoleBoot
	if f.validity == 0 {
		f.validity = identity.TokenValidity
		if ofBoot {
			f.validity = identity.BootTokenValidity
		}
	}
	if f.validity > most {
		return writ.Errorf(writ.CodeUsage, "--valid %s is not possible", f.validity).WithHint("at most %s", most)
	}
	if ofBoot && f.uses != 1 {
		return writ.Errorf(writ.CodeUsage, "--uses %d is not possible: the token of a boot server admits no node", f.uses)
	}
	if ofBoot {
		f.uses = 0
	}
	return nil
}

func createToken(ctx context.Context, env *cli.Env, flags tokenFlags) (newToken, error) {
	if err := flags.check(); err != nil {
		return newToken{}, err
	}
	c, roster, err := env.Cluster(ctx)
	if err != nil {
		return newToken{}, err
	}
	id, err := signing.ChooseDatacenter(ctx, env, c, roster, &signing.OrderFlags{Datacenter: flags.datacenter}, nil)
	if err != nil {
		return newToken{}, err
	}
	by, err := c.Person(ctx, roster)
	if err != nil {
		return newToken{}, err
	}
	defer by.Close()
	token, expires, err := c.Statements.CreateToken(ctx, by, id,
		client.NewToken{Role: flags.role, Validity: flags.validity, Uses: flags.uses})
	if err != nil {
		return newToken{}, err
	}
	dc := roster.Datacenter(id)
	made := newToken{
		Token: token.String(), ID: token.ID, Datacenter: id, Role: flags.role, Expires: expires, Uses: flags.uses,
	}
	if flags.role == identity.TokenRoleBoot {
		env.Done("with the token %s a boot server reports to %s until %s", token.ID, dc.Name, cli.Clock(expires))
		return made, nil
	}
	env.Done("token %s admits %s to %s until %s", token.ID, cli.Count(flags.uses, "node"), dc.Name, cli.Clock(expires))
	if dc.ManualApproval {
		env.Note("%s also requires an approval of each node: `writ node list` shows waiting nodes", dc.Name)
	}
	return made, nil
}

func tokenListCommand(env *cli.Env) *cobra.Command {
	var datacenter string
	c := &cobra.Command{
		Use:   "list",
		Short: "List join tokens and their admitted nodes",
		Long: `Lists the join tokens of each datacenter, signed by its supervisor for this request. If a datacenter does
not answer or the signature is invalid, its tokens are not listed. A warning names the datacenter.`,
		Example: "  writ token list --dc dc1",
		Args:    cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := signedTokens(cmd.Context(), env, datacenter)
			if err != nil {
				return err
			}
			asked, untrue := cli.Answered(env, list.Items,
				func(d api.DatacenterTokens) (string, *writ.Error) { return d.Name, d.Error })
			if len(asked) == 0 && untrue != nil {
				return untrue
			}
			var tokens []writ.JoinToken
			names := map[writ.DatacenterID]string{}
			for _, d := range asked {
				names[d.Datacenter] = d.Name
				tokens = append(tokens, d.Tokens...)
			}
			err = env.PrintList(terminal.List(list, tokens, func(t writ.JoinToken) string { return t.ID },
				cli.Whole(cli.Column("TOKEN", func(t writ.JoinToken) string { return t.ID })),
				cli.Column("DATACENTER", func(t writ.JoinToken) string { return names[t.Datacenter] }),
				cli.Column("STATE", func(t writ.JoinToken) string { return tokenState(t, time.Now()) }),
				cli.Whole(cli.Column("UNTIL", func(t writ.JoinToken) string { return cli.Clock(t.Expires) })),
				cli.Column("USED", tokenUse),
				cli.Column("NODES", func(t writ.JoinToken) string { return strings.Join(t.Nodes, " ") }),
				cli.Column("MADE BY", func(t writ.JoinToken) string { return t.CreatedBy }),
			), cli.UnlessSelected(cmd, "no join token is known: `writ token create` makes the first"))
			return cmp.Or(err, untrue)
		},
	}
	cli.DatacenterFlag(env, c, &datacenter, "only tokens of this datacenter")
	return c
}

// signedTokens requests the tokens of each datacenter, or only of the datacenter with the given name or id.
func signedTokens(ctx context.Context, env *cli.Env, datacenter string) (list api.TokenList, err error) {
	c, roster, err := env.Cluster(ctx)
	if err != nil {
		return list, err
	}
	list.Items, err = cli.AskEach(roster, datacenter, func(d *identity.Datacenter) api.DatacenterTokens {
		tokens, err := c.Statements.Tokens(ctx, roster, d)
		if err != nil {
			tokens = []writ.JoinToken{}
		}
		return api.DatacenterTokens{Datacenter: d.ID, Name: d.Name, Tokens: tokens, Error: writ.AsError(err)}
	})
	return list, err
}

// tokenUse formats how often a token was used.
func tokenUse(t writ.JoinToken) string {
	if t.Uses == 0 {
		return "by a boot server"
	}
	return fmt.Sprintf("%d of %d", t.Used, t.Uses)
}

// tokenState describes whether a token can be used.
func tokenState(t writ.JoinToken, now time.Time) string {
	switch {
	case t.Used >= t.Uses && t.Uses > 0:
		return "used"
	case !t.Expires.After(now):
		return "over"
	default:
		return "open"
	}
}

func tokenRevokeCommand(env *cli.Env) *cobra.Command {
	var datacenter string
	var reason cli.ReasonFlag
	c := &cobra.Command{
		Use:   "revoke TOKEN",
		Short: "Revoke a join token",
		Long: `Signs that a join token admits no more nodes. TOKEN is the id from "writ token list", which is also the part
of the token between the first two dots. Admitted nodes stay. A boot server can no longer report with the token, and
its earlier reports are deleted. You need the role admin.`,
		Example: "  writ token revoke nbswy3dpeb3w6 --dc dc1 --reason \"it was pasted into a chat\"",
		Args:    cli.Exactly("TOKEN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id := args[0]
			if strings.Contains(id, ".") {
				return writ.Errorf(writ.CodeUsage, "that is a token, not the id of one").
					WithHint("the id is its part between the first two dots; `writ token list` shows it")
			}
			if !identity.ValidTokenID(id) {
				return writ.Errorf(writ.CodeUsage, "%q cannot be the id of a token", id).WithHint("`writ token list` shows the ids")
			}
			return cli.DecideIn(cmd.Context(), env, datacenter, func(*identity.Datacenter) identity.Statement {
				return revocation(id, string(reason))
			})
		},
	}
	cli.DatacenterFlag(env, c, &datacenter, "name or id of the datacenter")
	reason.Add(c, "")
	return c
}

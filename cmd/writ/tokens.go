package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/terminal"
	"writ/identity"
)

// newToken is what `writ token create` made. It is the only time that the token is seen.
type newToken struct {
	Token      string            `json:"token"`
	ID         string            `json:"id"`
	Datacenter writ.DatacenterID `json:"datacenter"`
	Role       string            `json:"role"`
	Expires    time.Time         `json:"expires"`
}

func (a *app) tokenCommand() *cobra.Command {
	return family("token", "Make tokens with which nodes join", a.tokenCreateCommand())
}

func (a *app) tokenCreateCommand() *cobra.Command {
	var datacenter string
	var validity time.Duration
	c := &cobra.Command{
		Use:   "create",
		Short: "Make a token that admits one node to a datacenter, and print it",
		Long: `Makes a token that admits one node, once. The datacenter gets only what verifies the token, so you see the token
only now.`,
		Example: "  writ token create --dc dc1 > n1.token\n  writ runner --data ./n1 --name n1 --supervisor http://127.0.0.1:7441 --redis redis://127.0.0.1:6379/0 --join @n1.token",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			t, err := a.createToken(cmd.Context(), datacenter, validity)
			if err != nil {
				return err
			}
			return a.Print(terminal.View{Data: t, Names: []string{t.ID}, Text: func(bool) string { return t.Token + "\n" }})
		},
	}
	c.Flags().StringVar(&datacenter, "dc", "", "name or id of the datacenter")
	a.completeFlag(c, "dc", suggestDatacenters)
	c.Flags().DurationVar(&validity, "valid", identity.TokenValidity, "how long it can be used, at most 24h")
	return c
}

func (a *app) createToken(ctx context.Context, datacenter string, validity time.Duration) (newToken, error) {
	if validity <= 0 || validity > identity.MaxTokenValidity {
		return newToken{}, writ.Errorf(writ.CodeUsage, "--valid %s is not possible", validity).WithHint("at most %s", identity.MaxTokenValidity)
	}
	c, roster, err := a.cluster(ctx)
	if err != nil {
		return newToken{}, err
	}
	id, err := a.chooseDatacenter(ctx, c, roster, &orderFlags{datacenter: datacenter}, nil)
	if err != nil {
		return newToken{}, err
	}
	by, err := c.Person(roster)
	if err != nil {
		return newToken{}, err
	}
	defer by.Close()
	token, expires, err := c.CreateToken(ctx, by, id, validity)
	if err != nil {
		return newToken{}, err
	}
	a.Done("token %s admits one node to %s until %s", token.ID, roster.Datacenter(id).Name, clock(expires))
	return newToken{Token: token.String(), ID: token.ID, Datacenter: id, Role: identity.TokenRoleNode, Expires: expires}, nil
}

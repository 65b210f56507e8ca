package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"writ"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/terminal"
	"writ/coord/api"
	"writ/identity"
)

// Agree returns nil if the user agrees to sign: with --yes, or interactively.
func Agree(env *Env, what string, yes bool) error {
	switch {
	case yes:
		return nil
	case !env.Interactive():
		return writ.Errorf(writ.CodeUsage, "no terminal to ask whether to %s: nothing was signed", what).
			WithHint("--yes signs without asking")
	}
	return ConfirmSigning(env, what, "")
}

// ConfirmSigning asks the user whether to sign a decision. `what` describes the decision. It returns an error unless
// the answer is yes.
func ConfirmSigning(env *Env, what, hint string) error {
	yes, err := env.Confirm(what + "?")
	switch {
	case errors.Is(err, context.Canceled):
		return terminal.Interrupted("nothing was signed")
	case err != nil:
		return fmt.Errorf("ask whether to %s: %w", what, err)
	case !yes:
		return writ.Errorf(writ.CodeUsage, "nothing was signed").WithHint("%s", hint)
	}
	return nil
}

// Decide signs and submits a statement, and reports the result.
func Decide(ctx context.Context, env *Env, c *client.Client, s identity.Statement) error {
	answer, _, err := Decision(ctx, env, c, s)
	if err != nil {
		return err
	}
	if env.Structured() {
		return env.Print(terminal.View{Data: answer})
	}
	env.Done("%s", answer.Done)
	env.Note("verified: signed by the supervisor")
	return nil
}

// DecideIn calls Decide with the statement that `about` returns for a datacenter. nameOrID names this datacenter; ""
// means the only datacenter of the roster.
func DecideIn(
	ctx context.Context, env *Env, nameOrID string, about func(*identity.Datacenter) identity.Statement,
) error {
	c, roster, err := env.Cluster(ctx)
	if err != nil {
		return err
	}
	dc, err := client.TheDatacenter(roster, nameOrID)
	if err != nil {
		return err
	}
	s := about(dc)
	s.Datacenter = dc.ID
	return Decide(ctx, env, c, s)
}

// Decision signs and submits a statement. It returns the result that the supervisor has signed, and its time.
func Decision(
	ctx context.Context, env *Env, c *client.Client, s identity.Statement,
) (api.StatementAnswer, time.Time, error) {
	roster, err := env.Roster(ctx, c)
	if err != nil {
		return api.StatementAnswer{}, time.Time{}, err
	}
	by, err := c.Person(ctx, roster)
	if err != nil {
		return api.StatementAnswer{}, time.Time{}, err
	}
	defer by.Close()
	return c.Statements.DecideAt(ctx, by, s)
}

package runs

import (
	"context"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/cli/why"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/terminal"
)

func runExplainCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:     "explain RUN",
		Short:   "Explain why a run waits or failed, with the next command",
		Example: "  writ run explain RUN",
		Args:    cli.Exactly("RUN"),
		RunE: onRun(env, func(ctx context.Context, c *client.Client, id writ.RunID) error {
			s, err := why.SituationOf(ctx, c, id)
			if err != nil {
				return err
			}
			if s.Run.State.Ended() { // verify the end with the signature of the datacenter
				roster, err := c.Roster.Newest(ctx)
				if err != nil {
					return err
				}
				end, err := verifyEnd(ctx, c, roster, &s.Run)
				if err != nil {
					return err
				}
				noteUnsure(env, end)
				if !s.Run.State.Ended() { // the run was resumed in the meantime
					if s, err = why.SituationOf(ctx, c, id); err != nil {
						return err
					}
				}
			}
			if err := s.AskLosses(ctx, c); err != nil {
				return err
			}
			r := s.Explain()
			return env.Print(terminal.View{Data: r, Names: []string{string(id)}, Text: func(bool) string { return r.Text() }})
		}),
	}
}

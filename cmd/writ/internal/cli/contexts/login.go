package contexts

import (
	"time"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/terminal"
)

func loginCommand(env *cli.Env) *cobra.Command {
	var web, token bool
	c := &cobra.Command{
		Use:   "login",
		Short: "Log in to the coordinator, for reading",
		Long: `Logs in with your SSH key. Commands log in by themselves, so you need this command only for other programs.
A login lasts 12 hours. It permits reading within your roles and no changes. --web prints an address that logs a
browser in to the dashboard. The address works once, within 30 seconds. --token prints a token for the header
"Authorization: Bearer TOKEN". The token is valid for 15 minutes.`,
		Example: "  writ login --web\n  curl -H \"Authorization: Bearer $(writ login --token)\" https://writ.example.org:7440/v1/runs",
		Args:    cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if web && token {
				return writ.Errorf(writ.CodeUsage, "--web and --token exclude each other")
			}
			if err := cli.ShowsTokens(env); err != nil && (web || token) {
				return err
			}
			c, err := env.Client()
			if err != nil {
				return err
			}
			s, err := c.Sessions.Login(cmd.Context(), web)
			if writ.CodeOf(err) == writ.CodeNotFound {
				env.Note("reading needs no login at %s", c.Context.Servers[0])
				return nil
			}
			if err != nil {
				return err
			}
			switch {
			case token:
				return env.Print(terminal.View{Data: s, Text: func(bool) string { return s.Token + "\n" }})
			case web:
				env.Note("open this within 30 seconds:")
				return env.Print(terminal.View{Data: s, Text: func(bool) string { return s.Web + "\n" }})
			}
			env.Done("logged in at %s as %s until %s", s.Coordinator, s.Name, s.Until.Local().Format(time.DateTime))
			return nil
		},
	}
	c.Flags().BoolVar(&web, "web", false, "print an address that logs a browser in")
	c.Flags().BoolVar(&token, "token", false, "print a token for other programs")
	return c
}

func logoutCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:     "logout",
		Short:   "End the logins of this context, including browser logins made with them",
		Example: "  writ logout",
		Args:    cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := env.Client()
			if err != nil {
				return err
			}
			return c.Sessions.Logout(cmd.Context())
		},
	}
}

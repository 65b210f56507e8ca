// Package contexts contains the commands that select a cluster and log in to it: context, login and logout.
package contexts

import (
	"cmp"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/config"
	"writ/cmd/writ/internal/redact"
	"writ/cmd/writ/internal/terminal"
	"writ/identity"
)

func contextCommand(env *cli.Env) *cobra.Command {
	return cli.Family("context", "Choose between clusters",
		cli.OnlyClientFlags(contextListCommand(env), "config"),
		cli.OnlyClientFlags(contextUseCommand(env), "config"),
		cli.OnlyClientFlags(contextAddCommand(env), "config", "server", "cluster", "project", "key"),
		cli.InProject(contextExportCommand(env)),
		cli.OnlyClientFlags(contextImportCommand(env), "config", "project", "key"))
}

// contextView is a context, marked if it is the current one.
type contextView struct {
	config.Context
	Current bool `json:"current"`
}

func contextListCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the contexts of the configuration",
		Example: "  writ context list",
		Args:    cli.Exactly(),
		RunE: func(*cobra.Command, []string) error {
			file, err := env.Configuration()
			if err != nil {
				return err
			}
			all := []contextView{}
			for _, c := range file.Contexts {
				current := c.Name == file.Current || len(file.Contexts) == 1
				all = append(all, contextView{withoutPasswords(c), current})
			}
			return env.PrintList(terminal.List(all, all, func(c contextView) string { return c.Name },
				cli.Column("CURRENT", func(c contextView) string { return cli.Mark(c.Current) }),
				cli.Column("NAME", func(c contextView) string { return c.Name }),
				cli.Column("SERVERS", func(c contextView) string { return strings.Join(c.Servers, " ") }),
				cli.Column("PROJECT", func(c contextView) string { return c.Project }),
				cli.Wide("CLUSTER", func(c contextView) string { return string(c.Cluster) }),
				cli.Wide("KEY", func(c contextView) string { return c.Key }),
			), "no contexts in "+file.Path+": `writ context add` or `writ context import` adds the first")
		},
	}
}

// withoutPasswords returns a context that is safe to print. The address of a server behind a proxy can contain a
// password.
func withoutPasswords(c config.Context) config.Context {
	c.Servers = slices.Clone(c.Servers)
	for i, server := range c.Servers {
		c.Servers[i] = redact.Text(server)
	}
	return c
}

func contextUseCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:     "use NAME",
		Short:   "Make a context the current one",
		Example: "  writ context use work",
		Args:    cli.Exactly("NAME"),
		RunE: func(_ *cobra.Command, args []string) error {
			file, err := env.Configuration()
			if err != nil {
				return err
			}
			if file.Context(args[0]) == nil {
				return writ.Errorf(writ.CodeNotFound, "unknown context %q in %s", args[0], file.Path).
					WithHint("%s", file.Meant(args[0]))
			}
			file.Current = args[0]
			if err := file.Save(); err != nil {
				return err
			}
			env.Done("%s is the current context", args[0])
			return nil
		},
	}
}

func contextAddCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "add NAME",
		Short: "Add a cluster to the configuration, or change it",
		Long: `Adds a context. --server sets the addresses of the coordinators, and --cluster sets the id of the cluster to
trust. "writ init" prints that id and writes it to client.yaml. Get the id from a source that you trust.`,
		Example: "  writ context add work --server https://writ.example.org --cluster 6f1c… --project web-shop --key ~/.ssh/id_ed25519",
		Args:    cli.Exactly("NAME"),
		RunE: func(_ *cobra.Command, args []string) error {
			if !writ.ValidName(args[0]) {
				return writ.Errorf(writ.CodeUsage, "%q is not a valid name", args[0]).
					WithHint("use lower-case letters, digits and hyphens")
			}
			file, err := config.Load(env.Flags.Config)
			if err != nil {
				return err
			}
			key, err := client.AbsoluteSpec(env.Flags.Key)
			if err != nil {
				return err
			}
			c := config.Context{Name: args[0]}
			if have := file.Context(args[0]); have != nil {
				c = *have
			}
			one := &config.File{Contexts: []config.Context{c}}
			over := env.Flags.Overrides()
			over.Key = key
			c, err = one.Choose(c.Name, over)
			if err != nil {
				return err
			}
			if c.Cluster == "" {
				return writ.Errorf(writ.CodeUsage, "--cluster is missing").
					WithHint("pass the id of the cluster: the client.yaml that `writ init` wrote contains it")
			}
			if err := file.Add(c); err != nil {
				return err
			}
			env.Done("the context %s is in %s", c.Name, file.Path)
			return nil
		},
	}
}

func contextExportCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "export",
		Short: "Print the context for another person, with the addresses and the identity of the cluster",
		Long: `Prints the selected context without your key. It contains the addresses of the coordinators in the roster, the
id of the cluster, and the version and digest of your newest roster. The context is not secret. The importing machine
accepts only rosters that are linked to the id and to this version. So send the context over a channel that protects
it from changes.`,
		Example: "  writ context export > work.yaml",
		Args:    cli.Exactly(),
		RunE: func(*cobra.Command, []string) error {
			c, err := env.Client()
			if err != nil {
				return err
			}
			one := c.Context
			if one.Cluster == "" {
				return writ.Errorf(writ.CodeUsage, "no cluster is configured").WithHint("`writ context list` shows the contexts")
			}
			latest, err := c.Rosters.Latest()
			if err != nil {
				return err
			}
			if latest != nil {
				anchor, err := identity.AnchorOf(latest)
				if err != nil {
					return err
				}
				one.Anchor = anchor.String()
			}
			one.Key, one.Servers = "", exportedServers(one.Servers, latest)
			for i, server := range one.Servers {
				if u, err := url.Parse(server); err == nil {
					u.User = nil
					one.Servers[i] = u.String()
				}
			}
			text, err := terminal.YAMLText(config.File{Contexts: []config.Context{one}})
			if err != nil {
				return err
			}
			return env.Print(terminal.View{
				Data: one, Names: []string{one.Name}, Text: func(bool) string { return string(text) },
			})
		},
	}
}

// exportedServers returns the addresses for the context of another person. The context's addresses that are also in the
// roster come first, then the roster's other addresses. The context's other addresses, such as the address of a proxy,
// come last. If the roster has an HTTPS address, exportedServers omits the context's HTTP addresses that are not in the
// roster. Clients use HTTP only on loopback, so these addresses are useless on another machine.
func exportedServers(servers []string, latest *identity.Roster) []string {
	if latest == nil {
		return slices.Clone(servers)
	}
	named, https := map[string]bool{}, false
	for _, c := range latest.Coordinators {
		for _, u := range c.URLs {
			named[u] = true
			https = https || strings.HasPrefix(u, "https:")
		}
	}
	var exported, unnamed []string
	for _, server := range servers {
		switch at := identity.CoordinatorURL(server); {
		case named[at]:
			exported = append(exported, server)
			delete(named, at)
		case !https || strings.HasPrefix(at, "https:"):
			unnamed = append(unnamed, server)
		}
	}
	return slices.Concat(exported, slices.Sorted(maps.Keys(named)), unnamed)
}

func contextImportCommand(env *cli.Env) *cobra.Command {
	var name string
	c := &cobra.Command{
		Use:   "import FILE",
		Short: "Add an exported context; - reads it from standard input",
		Long: `Adds a context from a file of "writ context export". It replaces a context of the same name only if both are
for the same cluster. The first context becomes the current one. --project overrides the project in the file.`,
		Example: "  writ context import work.yaml --key ~/.ssh/id_ed25519\n  writ context import work.yaml --as office",
		Args:    cli.Exactly("FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			path := args[0]
			if path == "-" {
				path = "/dev/stdin"
			}
			if _, err := os.Stat(path); err != nil {
				return writ.Errorf(writ.CodeUsage, "cannot read the context: %v", err).
					WithHint("FILE is the output of `writ context export`; - reads standard input")
			}
			in, err := config.Load(path)
			if err != nil {
				return err
			}
			if len(in.Contexts) != 1 || in.Contexts[0].Cluster == "" || len(in.Contexts[0].Servers) == 0 {
				return writ.Errorf(writ.CodeUsage, "%s does not contain an exported context", args[0]).
					WithHint("write the file with `writ context export` on a machine that has the context")
			}
			one := in.Contexts[0]
			one.Name, one.Project = cmp.Or(name, one.Name), cmp.Or(env.Flags.Project, one.Project)
			if one.Key, err = client.AbsoluteSpec(env.Flags.Key); err != nil {
				return err
			}
			if !writ.ValidName(one.Name) {
				return writ.Errorf(writ.CodeUsage, "%q is not a valid name", one.Name).WithHint("choose another name with --as")
			}
			file, err := config.Load(env.Flags.Config)
			if err != nil {
				return err
			}
			if have := file.Context(one.Name); have != nil && have.Cluster != one.Cluster {
				return writ.Errorf(writ.CodeConflict, "a context %q of another cluster exists", one.Name).
					WithHint("import this context under another name with --as")
			}
			if err := file.Add(one); err != nil {
				return err
			}
			env.Done("the context %s is in %s; `writ whoami` shows your name in the roster", one.Name, file.Path)
			return nil
		},
	}
	c.Flags().StringVar(&name, "as", "", "new name of the context; the name in the file if unset")
	return c
}

// Commands returns the commands of this group.
func Commands(env *cli.Env) []*cobra.Command {
	return cli.InGroup(cli.Administration, env.ClientCommands(
		loginCommand(env), logoutCommand(env), contextCommand(env),
	)...)
}

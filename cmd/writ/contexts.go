package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/config"
	"writ/cmd/writ/internal/redact"
	"writ/cmd/writ/internal/terminal"
)

func (a *app) contextCommand() *cobra.Command {
	return family("context", "Choose between clusters", a.contextListCommand(), a.contextUseCommand(), a.contextAddCommand())
}

// contextView is a context and whether it is the current one.
type contextView struct {
	config.Context
	Current bool `json:"current"`
}

func (a *app) contextListCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the contexts of the configuration",
		Example: "  writ context list",
		Args:    exactly(),
		RunE: func(*cobra.Command, []string) error {
			file, err := config.Load(a.flags.config)
			if err != nil {
				return err
			}
			all := []contextView{}
			for _, c := range file.Contexts {
				current := c.Name == file.Current || len(file.Contexts) == 1
				all = append(all, contextView{withoutPasswords(c), current})
			}
			return a.Print(terminal.List(all, all, func(c contextView) string { return c.Name },
				terminal.Column[contextView]{Title: "CURRENT", Cell: func(c contextView) string { return mark(c.Current) }},
				terminal.Column[contextView]{Title: "NAME", Cell: func(c contextView) string { return c.Name }},
				terminal.Column[contextView]{Title: "SERVERS", Cell: func(c contextView) string { return strings.Join(c.Servers, " ") }},
				terminal.Column[contextView]{Title: "PROJECT", Cell: func(c contextView) string { return c.Project }},
				terminal.Column[contextView]{Title: "CLUSTER", Wide: true, Cell: func(c contextView) string { return string(c.Cluster) }},
				terminal.Column[contextView]{Title: "KEY", Wide: true, Cell: func(c contextView) string { return c.Key }},
			))
		},
	}
}

// withoutPasswords returns a context as it may be printed: the address of a server behind a proxy can have a password in it.
func withoutPasswords(c config.Context) config.Context {
	c.Servers = slices.Clone(c.Servers)
	for i, server := range c.Servers {
		c.Servers[i] = redact.Text(server)
	}
	return c
}

// mark shows a fact in a table.
func mark(is bool) string {
	if is {
		return "*"
	}
	return "-"
}

func (a *app) contextUseCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "use NAME",
		Short:   "Make a context the current one",
		Example: "  writ context use work",
		Args:    exactly("NAME"),
		RunE: func(_ *cobra.Command, args []string) error {
			file, err := config.Load(a.flags.config)
			if err != nil {
				return err
			}
			if file.Context(args[0]) == nil {
				return writ.Errorf(writ.CodeNotFound, "there is no context %q in %s", args[0], file.Path).WithHint("`writ context list` shows them")
			}
			file.Current = args[0]
			if err := file.Save(); err != nil {
				return err
			}
			a.Done("%s is the current context", args[0])
			return nil
		},
	}
}

func (a *app) contextAddCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "add NAME",
		Short: "Add a cluster to the configuration, or change it",
		Long: `Adds a context: --server says where its coordinators are, --cluster which cluster to trust. "writ init" prints
the id of a cluster, and its client.yaml has it. Take the id from a source that you trust.`,
		Example: "  writ context add work --server https://writ.example.org --cluster 6f1c… --project web-shop --key ~/.ssh/id_ed25519",
		Args:    exactly("NAME"),
		RunE: func(_ *cobra.Command, args []string) error {
			if !writ.ValidName(args[0]) {
				return writ.Errorf(writ.CodeUsage, "%q is not a proper name", args[0]).WithHint("use lower-case letters, digits and hyphens")
			}
			file, err := config.Load(a.flags.config)
			if err != nil {
				return err
			}
			c := config.Context{Name: args[0]}
			if have := file.Context(args[0]); have != nil {
				c = *have
			}
			one := &config.File{Contexts: []config.Context{c}}
			c, err = one.Choose(c.Name, a.overrides())
			if err != nil {
				return err
			}
			if c.Cluster == "" {
				return writ.Errorf(writ.CodeUsage, "--cluster is missing").WithHint("client.yaml of the person who founded the cluster has its id")
			}
			if err := file.Put(c); err != nil {
				return err
			}
			if file.Current == "" {
				file.Current = c.Name
			}
			if err := file.Save(); err != nil {
				return err
			}
			a.Done("%s is in %s", c.Name, file.Path)
			return nil
		},
	}
}

// overrides is what flags and environment say about the context.
func (a *app) overrides() config.Context {
	return config.Context{
		Servers: a.flags.servers, Cluster: writ.ClusterID(a.flags.cluster), Project: a.flags.project, Key: a.flags.key,
	}
}

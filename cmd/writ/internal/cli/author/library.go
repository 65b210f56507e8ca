package author

import (
	"strings"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/terminal"
	"writ/internal/meant"
	"writ/scripts/library"
)

func libraryCommand(env *cli.Env) *cobra.Command {
	list := &cobra.Command{
		Use:     "list",
		Short:   "List the modules of the library",
		Example: "  writ library list",
		Args:    cli.Exactly(),
		RunE: func(*cobra.Command, []string) error {
			all := []library.Module{}
			for _, name := range library.Names() {
				m, _ := library.Find(name) // Names lists the same modules
				all = append(all, m)
			}
			return env.Print(terminal.List(all, all, func(m library.Module) string { return m.Name },
				cli.Column("MODULE", func(m library.Module) string { return m.Name }),
				cli.Column("ABOUT", func(m library.Module) string { return m.About })))
		},
	}
	show := &cobra.Command{
		Use:   "show NAME",
		Short: "Print a module of the library, its manual first",
		Long: `Prints the source of a module. It begins with the manual: purpose, parameters and results. NAME is the
import name, with or without lib/. Without a version, the command prints the newest one.`,
		Example: "  writ library show fleet\n  writ library show lib/fleet@1",
		Args:    cli.Exactly("NAME"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return library.Names(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			m, err := findModule(args[0])
			if err != nil {
				return err
			}
			return env.Print(terminal.View{Data: m, Names: []string{m.Name}, Text: func(bool) string { return m.Text }})
		},
	}
	return cli.Family("library", "The modules that come with writ, for import(\"lib/…\")", list, show)
}

// findModule finds a module by its name, with or without the prefix of the library.
func findModule(name string) (library.Module, error) {
	full := name
	if !strings.HasPrefix(name, library.Prefix) {
		full = library.Prefix + name
	}
	if !strings.Contains(full, "@") && library.Newest(full) != "" {
		full = library.Newest(full)
	}
	if m, ok := library.Find(full); ok {
		return m, nil
	}
	err := writ.Errorf(writ.CodeNotFound, "the library has no module %q", name)
	if closest := meant.Closest(full, library.Names()); closest != "" {
		return library.Module{}, err.WithHint("did you mean %q?", closest)
	}
	return library.Module{}, err.WithHint("`writ library list` lists the modules")
}

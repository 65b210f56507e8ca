package roster

import (
	"cmp"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/config"
	"writ/cmd/writ/internal/daemon"
	"writ/cmd/writ/internal/daemon/coordinatord"
	"writ/cmd/writ/internal/terminal"
	"writ/cmd/writ/internal/transport"
	"writ/identity"
	"writ/identity/sshsig"
	"writ/internal/reach"
)

func coordinatorCommand(env *cli.Env) *cobra.Command {
	return cli.Family("coordinator", "Manage the coordinators of the roster and their addresses",
		coordinatorListCommand(env), coordinatorAddCommand(env), coordinatorRemoveCommand(env))
}

// coordinatorView is a coordinator as recorded in the roster.
type coordinatorView struct {
	Name string   `json:"name"`
	ID   string   `json:"id"`
	URLs []string `json:"urls"`
	Key  string   `json:"key"`
}

func viewOfCoordinator(c identity.Coordinator) coordinatorView {
	return coordinatorView{c.Name, c.ID, c.URLs, sshsig.Fingerprint(c.Key)}
}

func coordinatorListCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the coordinators of the roster with their addresses",
		Example: "  writ coordinator list",
		Args:    cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, roster, err := env.Cluster(cmd.Context())
			if err != nil {
				return err
			}
			all := []coordinatorView{}
			for _, c := range roster.Coordinators {
				all = append(all, viewOfCoordinator(c))
			}
			return env.PrintList(terminal.List(all, all, func(c coordinatorView) string { return c.Name },
				cli.Column("COORDINATOR", func(c coordinatorView) string { return c.Name }),
				cli.Column("ADDRESSES", func(c coordinatorView) string { return strings.Join(c.URLs, " ") }),
				cli.Wide("KEY", func(c coordinatorView) string { return c.Key }),
				cli.Wide("ID", func(c coordinatorView) string { return c.ID }),
			), "the roster names no coordinator: `writ coordinator add` adds the first")
		},
	}
}

func coordinatorAddCommand(env *cli.Env) *cobra.Command {
	var data string
	var addresses []string
	var adopt adoptFlags
	c := &cobra.Command{
		Use:   "add NAME",
		Short: "Add a coordinator, or give one on this machine an address with TLS",
		Long: `Signs the next version of the roster. You must be a root operator. It adds a coordinator with these
addresses. --data is the directory of the coordinator. The command creates a key there, unless the directory has
one, and adds the rosters. Copy both to the host of the coordinator.

Supervisors that use only addresses from the roster connect to the new coordinator by themselves. Commands use it if
their own coordinator does not answer.

For an existing coordinator the command adds addresses. To add TLS to a coordinator on loopback, pass its name and
its own directory. Then restart it with --listen and the address.`,
		Example: `  writ coordinator add coord2 --url https://10.0.0.6:7440 --data coord2
  writ coordinator add coord1 --url https://writ.example.org:7440 --data ./cluster`,
		Args: cli.Exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, roster, err := addCoordinator(env, cmd, args[0], data, addresses)
			if err != nil {
				return err
			}
			added := roster.Coordinators.At(addresses[0])
			if added == nil {
				return writ.Errorf(writ.CodeConflict, "the newest roster has no coordinator at %s: another person has changed it",
					addresses[0]).
					WithHint("`writ coordinator list` shows its coordinators; then repeat the command")
			}
			m := amendment{change: "coordinator " + added.Name + " is at the addresses below"}
			showSigned(env, roster, m)
			if err := env.Print(terminal.Record(viewOfCoordinator(*added), added.Name,
				terminal.Field{Title: "coordinator", Value: added.Name},
				terminal.Field{Title: "id", Value: added.ID},
				terminal.Field{Title: "addresses", Value: strings.Join(added.URLs, " ")},
				terminal.Field{Title: "key", Value: sshsig.Fingerprint(added.Key)})); err != nil {
				return err
			}
			err = awaitAdoption(cmd.Context(), env, c, roster, adopt, m)
			if u, wrong := url.Parse(addresses[0]); wrong == nil {
				env.Note("\nNext, copy coordinator.key and rosters from %s to its host, and run there:\n  %s", data,
					coordinatorStart(data, u))
			}
			return err
		},
	}
	f := c.Flags()
	f.StringVar(&data, "data", "", "directory of the coordinator, for its key and the rosters")
	f.StringSliceVar(&addresses, "url", nil, "public address of the coordinator, https://HOST:PORT (repeatable)")
	adopt.add(c)
	return c
}

// addCoordinator creates the key of a coordinator and signs a roster that includes it.
func addCoordinator(
	env *cli.Env, cmd *cobra.Command, name, data string, addresses []string,
) (*client.Client, client.Amended, error) {
	if err := checkNewName("coordinator", name); err != nil {
		return nil, client.Amended{}, err
	}
	switch {
	case data == "":
		return nil, client.Amended{}, writ.Errorf(writ.CodeUsage, "--data is missing").
			WithHint("name a new directory to copy to the coordinator's host, or the directory of a local coordinator")
	case len(addresses) == 0:
		return nil, client.Amended{}, writ.Errorf(writ.CodeUsage, "--url is missing").
			WithHint("--url is the address at which other machines reach the coordinator, such as https://10.0.0.6:7440")
	}
	for i, address := range addresses {
		u, err := transport.Address("coordinator", address)
		if err != nil {
			return nil, client.Amended{}, err
		}
		if err := checkPublished(u); err != nil {
			return nil, client.Amended{}, err
		}
		if u.Scheme != "https" {
			return nil, client.Amended{}, writ.Errorf(writ.CodeUsage, "%s has no TLS", address).WithHint("use https://")
		}
		addresses[i] = identity.CoordinatorURL(u.String())
	}
	data, err := filepath.Abs(data)
	if err != nil {
		return nil, client.Amended{}, err
	}
	c, before, err := env.Cluster(cmd.Context())
	if err != nil {
		return nil, client.Amended{}, err
	}
	kept, err := config.FindRosters(data)
	if err == nil && kept.Cluster != before.Cluster {
		return nil, client.Amended{}, writ.Errorf(writ.CodeConflict, "%s belongs to the cluster %s", data, kept.Cluster).
			WithHint("use another --data")
	}
	key, err := coordinatord.Key(data)
	if err != nil {
		return nil, client.Amended{}, writ.Errorf(writ.CodeUsage, "cannot make the key of the coordinator: %v", err).
			WithHint("--data names a directory that you can write to")
	}
	roster, err := c.Roster.Amend(cmd.Context(), func(next *identity.Roster) error {
		return client.AddCoordinator(next, name, daemon.PublicKey(key), addresses)
	})
	if err != nil {
		return nil, client.Amended{}, err
	}
	all, err := c.Rosters.Links()
	if err == nil {
		_, err = config.RostersIn(data, roster.Cluster).Add(all...)
	}
	if err != nil {
		return nil, client.Amended{}, writ.Errorf(writ.CodeUsage,
			"the coordinator is in the roster, but the rosters cannot be written to %s: %v", data, err).
			WithHint("repeat the command with a directory that you can write to")
	}
	return c, roster, nil
}

func coordinatorRemoveCommand(env *cli.Env) *cobra.Command {
	var adopt adoptFlags
	c := &cobra.Command{
		Use:   "remove NAME",
		Short: "Remove a coordinator from the roster",
		Long: `Signs the next version of the roster. You must be a root operator. It removes the coordinator. Supervisors
close their links to it, and commands reject it. The command contacts another coordinator if it knows one. Remove a
coordinator that never comes back, because supervisors store events for it until then. The last coordinator cannot
be removed, because commands could no longer reach the cluster.`,
		Example: "  writ coordinator remove coord2",
		Args:    cli.Exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, before, err := env.Cluster(cmd.Context())
			if err != nil {
				return err
			}
			if gone := before.Coordinators.Named(args[0]); gone != nil {
				c.Avoid(gone)
			}
			return amend(cmd.Context(), env, c, adopt,
				func(next *identity.Roster) error { return client.RemoveCoordinator(next, args[0]) },
				func(r client.Amended) (amendment, error) {
					m := amendment{change: "coordinator " + args[0] + " is removed", before: "still connects to " + args[0]}
					showSigned(env, r, m)
					if !env.Structured() {
						return m, nil
					}
					return m, env.Print(terminal.View{Data: map[string]any{"name": args[0], "roster": r.Version}})
				})
		},
	}
	adopt.add(c)
	return c
}

// coordinatorStart returns the command that starts a coordinator with the roster address u. For a DNS name, the command
// has the placeholder ADDRESS, because the name does not show where the host listens.
func coordinatorStart(data string, u *url.URL) string {
	command := "writ coord --data " + cli.ShellWord(data)
	if u.String() == config.DefaultServer {
		return command
	}
	host, port := u.Hostname(), cmp.Or(u.Port(), "443")
	if _, err := netip.ParseAddr(host); err != nil && !reach.Loopback(host) {
		host = "ADDRESS"
	}
	return command + " --listen " + net.JoinHostPort(host, port)
}

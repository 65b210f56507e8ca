package daemons

import (
	"time"

	"github.com/spf13/cobra"

	"writ/cmd/writ/internal/backup"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/terminal"
)

func backupCommand(env *cli.Env) *cobra.Command {
	var data string
	c := &cobra.Command{
		Use:   "backup FILE",
		Short: "Copy the data directory of a running coordinator or supervisor into one file",
		Long: `Copies the data directory of a coordinator or supervisor into one file: a consistent snapshot of its store,
its keys and its rosters. The daemon keeps running. Protect the file like a private key.

The file contains no store on PostgreSQL: back that up with the tools of PostgreSQL. Nodes have no backup. A node
whose disk is lost joins again as a new node.`,
		Example: `  writ backup --data ./dc1 dc1.tar`,
		Args:    cli.Exactly("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := backup.Save(cmd.Context(), data, args[0], env.Version)
			if err != nil {
				return err
			}
			env.Done("%s holds the %s of %s, with its keys", args[0], m.Role, data)
			return showManifest(env, m)
		},
	}
	cli.DataFlag(c, &data)
	return c
}

func restoreCommand(env *cli.Env) *cobra.Command {
	var data string
	var mark bool
	c := &cobra.Command{
		Use:   "restore FILE",
		Short: "Create a data directory from a backup",
		Long: `Creates the data directory of a coordinator or supervisor from a file of "writ backup". The directory must
be empty or missing.

Stop the original daemon permanently before you start the restored one. A restored supervisor uses a higher epoch
than any before it, so nodes obey no other supervisor. It does not repeat finished work of nodes, except for nodes
that joined or were removed after the backup. It sends its current state to its coordinators. Runs that were
accepted after the backup start again with the same ids, if their submissions have not expired. Otherwise they end
as RUN_LOST.

The journal may also return to an earlier state without this command, with its disk, machine or database. Then stop
the supervisor and use --mark before you start it again. The supervisor then asks its nodes for their finished work,
so no call runs on a second node.`,
		Example: "  writ restore --data ./dc1 dc1.tar\n  writ restore --mark --data ./dc1",
		Args: func(cmd *cobra.Command, args []string) error {
			if mark {
				return cli.Exactly()(cmd, args)
			}
			return cli.Exactly("FILE")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if mark {
				if err := backup.Mark(data); err != nil {
					return err
				}
				env.Done("the supervisor of %s will treat its journal as restored when it starts again", data)
				return nil
			}
			m, err := backup.Restore(cmd.Context(), args[0], data)
			if err != nil {
				return err
			}
			env.Done("%s holds the %s of the backup; start it as before, and never start the original again", data, m.Role)
			return showManifest(env, m)
		},
	}
	cli.DataFlag(c, &data)
	c.Flags().BoolVar(&mark, "mark", false, "only mark the journal of a supervisor as restored by other means")
	return c
}

func showManifest(env *cli.Env, m backup.Manifest) error {
	return env.Print(terminal.Record(m, string(m.Role),
		terminal.Field{Title: "role", Value: string(m.Role)},
		terminal.Field{Title: "made", Value: m.Made.Format(time.RFC3339)},
		terminal.Field{Title: "version", Value: m.Version},
	))
}

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
		Short: "Copy the data directory of a coordinator or supervisor into one file, while it works",
		Long: `Copies the data directory of a coordinator or of a supervisor into one file: its store at one moment, its keys
and its rosters. The daemon goes on meanwhile. Keep the file as you keep a private key.

A store on PostgreSQL is not in it: back that up with the tools of PostgreSQL. Nodes have no backup: one
whose disk is gone joins anew, as a new node.`,
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
		Short: "Make a data directory from a backup",
		Long: `Makes the data directory of a coordinator or of a supervisor from a file of "writ backup". The directory must be
empty, or not exist.

Stop the daemon of the backup for good before you start the restored one. A supervisor takes a higher epoch than
all before it, so nodes obey no other. It repeats no work of its nodes, except work of nodes that joined after the
backup or were removed. It reports its complete state to its coordinators again. Runs that were accepted after the
backup begin again under their ids if their submissions have not expired. The others end as RUN_LOST.

If you restored the journal in another way, as part of a disk, machine or database, stop the supervisor and use
--mark before you start it again. Then it asks its nodes what they did since, so that no call is repeated on a second
node.`,
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

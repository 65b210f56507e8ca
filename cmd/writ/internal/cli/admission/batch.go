package admission

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/redact"
	"writ/cmd/writ/internal/terminal"
	"writ/coord/api"
	"writ/identity"
)

// batchFlags hold the properties of a new batch.
type batchFlags struct {
	datacenter string
	serials    string // name of a file
	most       int
	validity   time.Duration
	reason     cli.ReasonFlag
}

func batchCommand(env *cli.Env) *cobra.Command {
	return cli.Family("batch",
		"Approve nodes in advance by serial number, list and revoke such batches",
		batchCreateCommand(env), batchListCommand(env), batchRevokeCommand(env))
}

func batchCreateCommand(env *cli.Env) *cobra.Command {
	var flags batchFlags
	c := &cobra.Command{
		Use:   "create --serials FILE",
		Short: "Admit nodes by a list of serial numbers",
		Long: `Signs a list of serial numbers. A node without a token is admitted without "writ node approve" if its
machine reports a listed number. FILE has one number per line; text after # is a comment. - reads from standard
input. Each number admits one node, the first that reports it. You need the role admin.

A serial number is not secret: it is printed on the machine, on invoices and in inventories. A stranger who reaches
the node API and reports a listed number gets a node. So keep a batch small and short, and create it just before the
machines start. Check "writ batch list" afterwards: a number that a second machine reports as well is contested.

A datacenter with manual approval rejects batches, because it approves each node by its key.`,
		Example: "  writ batch create --dc dc1 --serials rack7.txt --valid 1h\n" +
			"  writ batch create --dc dc1 --serials inventory.txt --max 20 --reason \"rack 7 is set up\"",
		Args: cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error { return createBatch(cmd.Context(), env, flags) },
	}
	f := c.Flags()
	cli.DatacenterFlag(env, c, &flags.datacenter, "name or id of the datacenter")
	f.StringVar(&flags.serials, "serials", "", "file with one serial number per line; - reads standard input")
	f.IntVar(&flags.most, "max", 0, "maximum number of admitted nodes. 0: one for each serial number")
	cli.InRange(f, "max", &flags.most, 0, cli.Most)
	f.DurationVar(&flags.validity, "valid", identity.BatchValidity, "validity of the batch, at most 24h")
	cli.InRange(f, "valid", &flags.validity, time.Second, identity.MaxBatchValidity)
	flags.reason.Add(c, "writ batch list")
	return c
}

func createBatch(ctx context.Context, env *cli.Env, flags batchFlags) error {
	b, err := flags.batch(env.Terminal)
	if err != nil {
		return err
	}
	return cli.DecideIn(ctx, env, flags.datacenter, func(dc *identity.Datacenter) identity.Statement {
		env.Note("signing: a batch of %s admits at most %s to %s until %s", cli.Count(len(b.Serials), "serial number"),
			cli.Count(b.Most, "node"), dc.Name, cli.Clock(b.Until))
		env.Note("%s", identity.BatchWarning)
		s := identity.Statement{Reason: string(flags.reason)}
		b.Statement(&s)
		return s
	})
}

// batch builds the batch from the flags. The file name - means standard input.
func (flags batchFlags) batch(in *terminal.Terminal) (identity.Batch, error) {
	none := identity.Batch{}
	serials, err := readSerials(flags.serials, in)
	if err != nil {
		return none, err
	}
	if flags.most > len(serials) {
		return none, writ.Errorf(writ.CodeUsage, "--max %d is not possible", flags.most).
			WithHint("the list has only %s, and each number admits one node", cli.Count(len(serials), "serial number"))
	}
	b := identity.Batch{
		ID: identity.NewBatchID(), Serials: serials, Most: flags.most,
		Until: time.Now().Add(flags.validity).UTC().Truncate(time.Second),
	}
	if b.Most == 0 {
		b.Most = len(serials)
	}
	return b, nil
}

// readSerials reads a list of serial numbers and returns them sorted.
func readSerials(name string, in *terminal.Terminal) ([]string, error) {
	if name == "" {
		return nil, writ.Errorf(writ.CodeUsage, "--serials is missing").
			WithHint("give a file with one serial number per line; `writ node show` and the label of the machine show it")
	}
	text, err := readListed(name, in)
	if err != nil {
		return nil, err
	}
	listed := make(map[string]bool)
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line, _, _ := strings.Cut(lines.Text(), "#")
		serial := strings.TrimSpace(line)
		switch {
		case serial == "":
			continue
		case redact.Holds(serial):
			return nil, cli.HoldsSecret(fmt.Sprintf("line %d of %s", n, name))
		case !identity.ValidSerial(serial):
			return nil, writ.Errorf(writ.CodeUsage, "%s, line %d: %q is not a serial number of one machine", name, n, serial).
				WithHint("a serial number has %d to %d visible characters; texts such as \"Default string\" are the same on many machines",
					identity.MinSerial, identity.MaxSerial)
		case listed[serial]:
			return nil, writ.Errorf(writ.CodeUsage, "%s, line %d: %q is listed twice", name, n, serial)
		}
		listed[serial] = true
	}
	if err := lines.Err(); err != nil {
		return nil, writ.Errorf(writ.CodeUsage, "read %s: %v", name, err)
	}
	if len(listed) < 1 || len(listed) > identity.MaxBatchSerials {
		return nil, writ.Errorf(writ.CodeUsage, "%s has %s", name, cli.Count(len(listed), "serial number")).
			WithHint("a batch has 1 to %d", identity.MaxBatchSerials)
	}
	return slices.Sorted(maps.Keys(listed)), nil
}

// maxSerialsFile limits the size of the file with serial numbers, in bytes.
const maxSerialsFile = 1 << 20

func readListed(name string, in *terminal.Terminal) (text []byte, err error) {
	if name == "-" {
		text, err = in.Input(maxSerialsFile + 1)
	} else {
		text, err = in.ReadFile(name, maxSerialsFile)
	}
	if err != nil {
		return nil, writ.Errorf(writ.CodeUsage, "cannot read the serial numbers: %w", err).
			WithHint("--serials names a file with one serial number per line; - reads standard input")
	}
	if len(text) > maxSerialsFile {
		return nil, writ.Errorf(writ.CodeTooLarge, "%s has more than %d bytes", name, maxSerialsFile)
	}
	return text, nil
}

func batchListCommand(env *cli.Env) *cobra.Command {
	var datacenter string
	c := &cobra.Command{
		Use:   "list",
		Short: "List batches, their admitted nodes, and serial numbers that two machines report",
		Long: `Lists the batches. NODES lists the nodes that a batch has admitted. CONTESTED lists serial numbers of
admitted nodes that another machine reports as well, with the node name of that machine. One of the two machines has
a copied number. Unused numbers are hidden, because each of them admits a node.`,
		Example: "  writ batch list --dc dc1",
		Args:    cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := env.Client()
			if err != nil {
				return err
			}
			list, err := api.Answer[api.BatchList](c.API.ListBatches(cmd.Context(),
				&api.ListBatchesParams{Datacenter: api.Given(datacenter)}))
			if err != nil {
				return err
			}
			asked, err := cli.Answered(env, list.Items,
				func(d api.DatacenterBatches) (string, *writ.Error) { return d.Name, d.Error })
			if err != nil {
				return err
			}
			var batches []api.Batch
			names := map[writ.DatacenterID]string{}
			for _, d := range asked {
				names[d.Datacenter] = d.Name
				batches = append(batches, d.Batches...)
			}
			return env.PrintList(batchTable(list, batches, names),
				cli.UnlessSelected(cmd, "no batch is known: `writ batch create` makes the first"))
		},
	}
	cli.DatacenterFlag(env, c, &datacenter, "only batches of this datacenter")
	return c
}

func batchTable(list api.BatchList, batches []api.Batch, names map[writ.DatacenterID]string) terminal.View {
	return terminal.List(list, batches, func(b api.Batch) string { return b.ID },
		cli.Whole(cli.Column("BATCH", func(b api.Batch) string { return b.ID })),
		cli.Column("DATACENTER", func(b api.Batch) string { return names[b.Datacenter] }),
		cli.Column("STATE", func(b api.Batch) string { return batchState(b, time.Now()) }),
		cli.Whole(cli.Column("UNTIL", func(b api.Batch) string { return cli.Clock(b.Until) })),
		cli.Column("SERIALS", func(b api.Batch) string { return fmt.Sprint(b.Serials) }),
		cli.Column("ADMITTED", func(b api.Batch) string { return fmt.Sprintf("%d of %d", len(b.Admitted), b.Max) }),
		cli.Column("NODES", func(b api.Batch) string {
			return eachNode(b.Admitted, " ", func(n api.BatchNode) string { return n.Name })
		}),
		cli.Column("CONTESTED", func(b api.Batch) string {
			return eachNode(b.Contested, "; ", func(n api.BatchNode) string {
				return fmt.Sprintf("%s (%s has it, %s asks)", n.Serial, n.Holder, n.Name)
			})
		}),
		cli.Column("MADE BY", func(b api.Batch) string { return b.CreatedBy }),
		cli.Wide("REASON", func(b api.Batch) string { return b.Reason }),
		cli.Wide("VOID", func(b api.Batch) string { return b.Void }),
	)
}

func eachNode(nodes []api.BatchNode, separator string, text func(api.BatchNode) string) string {
	all := make([]string, len(nodes))
	for i, n := range nodes {
		all[i] = text(n)
	}
	return strings.Join(all, separator)
}

// batchState describes whether a batch admits nodes.
func batchState(b api.Batch, now time.Time) string {
	switch {
	case !b.Revoked.IsZero():
		return "revoked"
	case len(b.Admitted) >= b.Max && b.Max > 0:
		return "used"
	case !b.Until.After(now):
		return "over"
	case b.Void != "":
		return "void"
	default:
		return "open"
	}
}

func batchRevokeCommand(env *cli.Env) *cobra.Command {
	var datacenter string
	var reason cli.ReasonFlag
	c := &cobra.Command{
		Use:   "revoke BATCH",
		Short: "Revoke a batch",
		Long: `Signs that a batch admits no more nodes. BATCH is the id from "writ batch create" or "writ batch list".
Admitted nodes stay. You need the role admin.`,
		Example: "  writ batch revoke nbswy3dpeb3w6 --dc dc1 --reason \"the rack is complete\"",
		Args:    cli.Exactly("BATCH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !identity.ValidTokenID(args[0]) { // batch ids have the same form
				return writ.Errorf(writ.CodeUsage, "%q cannot be the id of a batch", args[0]).
					WithHint("`writ batch list` shows the ids")
			}
			return cli.DecideIn(cmd.Context(), env, datacenter, func(*identity.Datacenter) identity.Statement {
				return identity.Statement{Subject: "batch/" + args[0], Decision: identity.DecisionRevoke, Reason: string(reason)}
			})
		},
	}
	cli.DatacenterFlag(env, c, &datacenter, "name or id of the datacenter")
	reason.Add(c, "")
	return c
}

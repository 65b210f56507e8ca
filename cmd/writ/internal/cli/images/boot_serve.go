package images

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/cli/serve"
	"writ/cmd/writ/internal/daemon"
	"writ/cmd/writ/internal/daemon/bootd"
	"writ/cmd/writ/internal/terminal"
	"writ/coord/api"
	"writ/efi/bootserver"
	"writ/internal/outbound"
)

// bootListAddress is the default address where a boot server lists its machines for operators.
const bootListAddress = "127.0.0.1:7442"

// Limits of a request for the list of machines.
const (
	bootListWithin = 10 * time.Second
	bootListMost   = 16 << 20
)

func bootCommand(env *cli.Env) *cobra.Command {
	return cli.Family("boot", "Start machines over the network, and show their boot progress", bootServeCommand(env),
		env.ClientCommands(bootListCommand(env))[0], bootAssignCommand(env))
}

func bootServeCommand(env *cli.Env) *cobra.Command {
	var b bootd.Config
	var listen, list, source, assigned, report string
	var reportTo []string
	var machine machineFlags
	c := serve.DaemonCommand(env, &cobra.Command{
		Use:   "serve",
		Short: "Run a boot server: it serves node images to machines with iPXE and records their boot progress",
		Long: `Runs the boot server of a site. Configure the machines' DHCP server to send http://ADDRESS:PORT/boot/ipxe to
clients that run iPXE. Each machine gets a script and the node image, and reports the stages of its start. "writ
boot list" shows them.

The server records machines only in memory, until it stops. Reports are not authenticated: any machine in that
network can report for another. They grant no rights.

The settings of machines are in the script, and every client in the network can read it. So they contain no token:
with --cluster a machine waits for approval. Without TLS, an attacker in the network can send another image to
machines.

The image is loaded once. To serve a new image, restart the server. Machines that are loading request the script
again.`,
		Example: "  writ boot serve --listen 10.77.0.1:8080 --image writ-node.efi --cluster ID --supervisor https://10.77.0.3:7441 --redis rediss://10.77.0.3:6379/0",
	}, func(ctx context.Context, log *slog.Logger) error {
		if listen == "" {
			return writ.Errorf(writ.CodeUsage, "--listen is missing").
				WithHint("the address of this host in the network of the machines, like 10.77.0.1:8080")
		}
		words, err := machine.words()
		if err != nil {
			return err
		}
		if b.URL != "" {
			if b.URL, err = webAddress("url", b.URL); err != nil {
				return err
			}
		}
		var cmdline []string
		if b.Image, cmdline, err = nodeImage(source); err != nil {
			return err
		}
		b.Words = slices.Concat(cmdline, words)
		if assigned != "" {
			b.Assigned = &bootd.AssignmentsFile{Path: assigned, Check: checkAssigned}
		}
		if b.Reports, err = bootReports(report, reportTo, b.Words, log); err != nil {
			return err
		}
		if b.Machines, err = daemon.Listen(listen); err != nil {
			return err
		}
		if b.Operators, err = daemon.Listen(list); err != nil {
			b.Machines.Close()
			return err
		}
		b.Log = log
		server, err := bootd.New(b)
		if err != nil {
			return err
		}
		return server.Run(ctx)
	})
	f := c.Flags()
	f.StringVar(&listen, "listen", "", "address for machines, in their network")
	f.StringVar(&list, "list-listen", bootListAddress, "address for `writ boot list`, without login and TLS")
	f.StringVar(&source, "image", "writ-node.efi", "the node image")
	f.StringVar(&assigned, "machines", "",
		"file with settings of single machines, written by `writ boot assign`. It is read again when it changes")
	f.StringVar(&b.URL, "url", "", "address of the server for machines, http://HOST:PORT; by default the address in their request")
	f.StringVar(&b.TLSCert, "tls-cert", "",
		"file (PEM) with a certificate that iPXE and the image trust, and its chain. It is read again when it changes")
	f.StringVar(&b.TLSKey, "tls-key", "", "file (PEM) with the key of the certificate in --tls-cert")
	f.StringSliceVar(&b.AllowedHosts, "allowed-host", nil,
		"names at which machines and operators reach the server, in addition to addresses, the name of this machine and --url")
	f.StringVar(&report, "report", "",
		"token of writ token create --role boot-server, to report the machines that start to the supervisor. @FILE reads it from a file")
	f.StringSliceVar(&reportTo, "report-to", nil,
		"address of the supervisor's node API for these reports; by default the address for machines")
	machine.addShared(c)
	cli.FromEnvironment(f, "listen", "list-listen", "tls-cert", "tls-key", "report", "report-to")
	return c
}

// bootReports returns the reports about starting machines to the supervisor of the token's datacenter. Without a token
// it returns nil. If `to` is empty, the reports use the supervisor addresses in the command line of the machines.
func bootReports(token string, to, words []string, log *slog.Logger) (*bootd.Reports, error) {
	if token == "" {
		if len(to) > 0 {
			return nil, writ.Errorf(writ.CodeUsage, "--report-to needs --report").
				WithHint("`writ token create --role boot-server` makes the token")
		}
		return nil, nil
	}
	parsed, err := serve.JoinToken(token, false)
	if err != nil {
		return nil, err
	}
	if len(to) == 0 {
		for _, word := range words {
			if addresses, ok := strings.CutPrefix(word, "writ.supervisor="); ok { // the last setting takes effect
				to = strings.Split(addresses, ",")
			}
		}
	}
	return bootd.NewReports(*parsed, to, log)
}

func bootListCommand(env *cli.Env) *cobra.Command {
	var server, datacenter string
	c := &cobra.Command{
		Use:   "list",
		Short: "List the machines that contacted a boot server, and their boot progress",
		Long: `Lists the machines that contacted a boot server since its start, one line per network card. The newest step
comes first, with its age and a hint.

Without --dc the command contacts the boot server itself, which has no login. With --dc it contacts a coordinator,
from anywhere, and lists boot servers that were started with --report. You need a role for all projects.

The server observes the steps script, loading and sent itself. Machines report the later steps. Reports are hints:
any machine in that network can report for another. "writ node list" shows the nodes of a datacenter.

ASSIGNED shows the state of the settings of a single machine. waits: they apply at its next start. given: they were
in its script. used or ignored: the machine reports that it has started with them or with others.`,
		Example: "  writ boot list\n  writ boot list --boot-server http://10.77.9.1:7442 -o wide\n  writ boot list --dc dc1",
		Args:    cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if datacenter != "" {
				return listReportedBoots(env, cmd, datacenter)
			}
			if err := cli.NoClient(cmd, "--dc"); err != nil {
				return err
			}
			list, err := fetchBootList(cmd.Context(), server)
			if err != nil {
				return err
			}
			none := "no machine has requested a boot file since " + list.Began.Local().Format(time.DateTime) +
				": `writ boot serve --help` explains how machines find the server"
			if err := env.PrintList(bootTable(list, bootRows(list)), none); err != nil {
				return err
			}
			if list.Trouble != "" {
				env.Warn("%s; the boot server keeps the previous content", list.Trouble)
			}
			return nil
		},
	}
	c.Flags().StringVar(&server, "boot-server", "http://"+bootListAddress,
		"address of the boot server for operators, its --list-listen")
	cli.DatacenterFlag(env, c, &datacenter, "name or id of a datacenter; lists its reporting boot servers")
	c.MarkFlagsMutuallyExclusive("boot-server", "dc")
	return c
}

// bootRow is a machine in a list, with ages instead of times.
type bootRow struct {
	api.BootMachine
	since, heard time.Duration
	server       string // name of the boot server, "" in its own list
}

// bootRows returns the rows for the machines in a boot server's own list.
func bootRows(list *bootserver.List) []bootRow {
	rows := make([]bootRow, len(list.Machines))
	for i, r := range list.Machines {
		rows[i] = bootRow{since: time.Duration(r.AgeSeconds) * time.Second,
			heard: time.Duration(r.SilentSeconds) * time.Second, BootMachine: api.BootMachine{
				Mac: r.MAC, Node: r.Node, Step: r.Step, Address: r.Address, Serial: r.Serial, Asset: r.Asset, UUID: r.UUID,
				Starts: r.Starts, Assigned: r.Assigned, Assignment: r.Assignment, Advice: r.Advice,
			}}
	}
	return rows
}

// bootTable formats machines as a table. JSON output shows data instead.
func bootTable(data any, rows []bootRow, more ...terminal.Column[bootRow]) terminal.View {
	seconds := func(title, exact string, of func(bootRow) time.Duration) terminal.Column[bootRow] {
		return terminal.Column[bootRow]{
			Title: title, Name: exact,
			Cell:  func(r bootRow) string { return cli.ShortDuration(of(r)) },
			Exact: func(r bootRow) string { return strconv.FormatInt(int64(of(r)/time.Second), 10) },
		}
	}
	silent := seconds("SILENT", "silent_seconds", func(r bootRow) time.Duration { return r.heard })
	silent.Wide = true
	return terminal.List(data, rows, func(r bootRow) string { return r.Mac }, slices.Concat([]terminal.Column[bootRow]{
		cli.Column("MACHINE", func(r bootRow) string { return r.Mac }),
		cli.Column("NODE", func(r bootRow) string { return r.Node }),
		cli.Column("STEP", func(r bootRow) string { return r.Step }),
		seconds("SINCE", "age_seconds", func(r bootRow) time.Duration { return r.since }),
		silent,
		cli.Wide("ADDRESS", func(r bootRow) string { return r.Address }),
		cli.Wide("SERIAL", func(r bootRow) string { return r.Serial }),
		cli.Wide("ASSET", func(r bootRow) string { return r.Asset }),
		cli.Wide("UUID", func(r bootRow) string { return r.UUID }),
		cli.Wide("STARTS", func(r bootRow) string { return strconv.Itoa(r.Starts) }),
		cli.Column("ASSIGNED", func(r bootRow) string { return r.Assignment }),
		cli.Wide("SETTINGS", func(r bootRow) string { return r.Assigned }),
	}, more, []terminal.Column[bootRow]{
		cli.Column("ADVICE", func(r bootRow) string { return r.Advice }),
	})...)
}

// fetchBootList requests the list of machines from a boot server.
func fetchBootList(ctx context.Context, server string) (*bootserver.List, error) {
	base, err := webAddress("boot-server", server)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeout(ctx, bootListWithin)
	defer stop()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+bootserver.ListPath, nil)
	if err != nil {
		return nil, fmt.Errorf("request the list from the boot server: %w", err)
	}
	answer, err := (&http.Client{Transport: outbound.Final(http.DefaultTransport)}).Do(request)
	if err != nil {
		return nil, writ.Errorf(writ.CodeUnreachable, "cannot reach the boot server: %v", err).
			WithHint("--boot-server is the address in --list-listen of `writ boot serve`; by default only its own machine reaches it")
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, bootListMost))
	if err != nil {
		return nil, writ.Errorf(writ.CodeUnreachable, "cannot read the answer of the boot server: %v", err)
	}
	list := new(bootserver.List)
	if answer.StatusCode != http.StatusOK || json.Unmarshal(text, list) != nil {
		first, _, _ := strings.Cut(string(text[:min(len(text), 200)]), "\n")
		return nil, writ.Errorf(writ.CodeUnreachable,
			"%s is not the operator address of a boot server: it answers %s, %s", base, answer.Status, first).
			WithHint("--boot-server is the address in --list-listen of `writ boot serve`")
	}
	return list, nil
}

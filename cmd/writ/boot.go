package main

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
	"writ/cmd/writ/internal/daemon"
	"writ/cmd/writ/internal/terminal"
	"writ/efi/bootserver"
)

// bootListAddress is where a boot server tells operators of machines, unless it is told otherwise.
const bootListAddress = "127.0.0.1:7442"

// Bounds of the list of machines.
const (
	bootListWithin = 10 * time.Second
	bootListMost   = 16 << 20
)

func (a *app) bootCommand() *cobra.Command {
	return family("boot", "Start machines over the network, and see their boot progress", a.bootServeCommand(), a.bootListCommand(), a.bootAssignCommand())
}

func (a *app) bootServeCommand() *cobra.Command {
	var b daemon.BootServer
	var listen, list, source, assigned string
	var machine machineFlags
	c := a.daemonCommand(&cobra.Command{
		Use:   "serve",
		Short: "Run a boot server: it serves node images to machines with iPXE and records their boot progress",
		Long: `Runs the boot server of a site. Have the DHCP server of the machines name http://ADDRESS:PORT/boot/ipxe to those that run
iPXE. Each machine gets a script and the node image, and reports the stages of its start. "writ boot list" shows them.

Its records of machines are in memory only, and end with it. Reports are not authenticated: any machine of that
network can report for another. They authorise nothing.

The settings of machines are in the script, which everybody in the network can read. So they have no token: with
--cluster a machine waits to be approved. Without TLS others in the network can give machines another image.

The image is read once. Start the server again with the next one: machines that are loading ask for the script again.`,
		Example: "  writ boot serve --listen 10.77.0.1:8080 --image writ-node.efi --cluster ID --supervisor https://10.77.0.3:7441 --redis rediss://10.77.0.3:6379/0",
	}, func(ctx context.Context, log *slog.Logger) error {
		if listen == "" {
			return writ.Errorf(writ.CodeUsage, "--listen is missing").WithHint("the address of this host in the network of the machines, like 10.77.0.1:8080")
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
			b.Assigned = &daemon.AssignmentsFile{Path: assigned, Check: checkAssigned}
		}
		if b.Machines, err = daemon.Listen(listen); err != nil {
			return err
		}
		if b.Operators, err = daemon.Listen(list); err != nil {
			b.Machines.Close()
			return err
		}
		b.Log = log
		return b.Run(ctx, func() {})
	})
	f := c.Flags()
	f.StringVar(&listen, "listen", "", "address for machines, in their network")
	f.StringVar(&list, "list-listen", bootListAddress, "address for `writ boot list`, without login and TLS")
	f.StringVar(&source, "image", "writ-node.efi", "the node image")
	f.StringVar(&assigned, "machines", "", "file with settings of single machines, as `writ boot assign` writes it. It is read again when it changes")
	f.StringVar(&b.URL, "url", "", "how machines reach the server, if not by the address that they ask: http://HOST:PORT")
	f.StringVar(&b.TLSCert, "tls-cert", "", "file (PEM) with a certificate that iPXE and the image know, and its chain. It is read again when it changes")
	f.StringVar(&b.TLSKey, "tls-key", "", "file (PEM) with the key of that certificate")
	f.StringSliceVar(&b.AllowedHosts, "allowed-host", nil, "names by which machines and operators may ask for it, besides addresses, the name of this machine and that of --url")
	machine.addShared(c)
	fromEnvironment(f, "listen", "list-listen", "tls-cert", "tls-key")
	return c
}

func (a *app) bootListCommand() *cobra.Command {
	var server string
	c := &cobra.Command{
		Use:   "list",
		Short: "List the machines that asked a boot server, and their boot progress",
		Long: `Lists the machines that asked a boot server since it was started, one for each network card. The newest step comes first, with
the time since and what to look at.

Steps are script, loading and sent, which the server sees itself. Later ones are stages that the machine reports.
They are hints: any machine of that network can claim them for another. "writ node list" shows what a datacenter knows.

ASSIGNED says what became of the settings of a single machine. waits: for its next start. given: they were in its script.
used, ignored: the machine says that it has started with them, or with others.`,
		Example: "  writ boot list\n  writ boot list --server http://10.77.9.1:7442 -o wide",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := fetchBootList(cmd.Context(), server)
			if err != nil {
				return err
			}
			if err := a.Print(bootTable(list)); err != nil {
				return err
			}
			if list.Trouble != "" {
				a.Warn("%s; what it said before is in force", list.Trouble)
			}
			if len(list.Machines) == 0 {
				a.Note("no machine has asked since %s", list.Began.Local().Format(time.DateTime))
			}
			return nil
		},
	}
	c.Flags().StringVar(&server, "server", "http://"+bootListAddress, "address of the boot server for operators, its --list-listen")
	return c
}

func bootTable(list *bootserver.List) terminal.View {
	seconds := func(title, exact string, of func(bootserver.Row) int64) terminal.Column[bootserver.Row] {
		return terminal.Column[bootserver.Row]{
			Title: title, Name: exact,
			Cell:  func(r bootserver.Row) string { return shortDuration(time.Duration(of(r)) * time.Second) },
			Exact: func(r bootserver.Row) string { return strconv.FormatInt(of(r), 10) },
		}
	}
	silent := seconds("SILENT", "silent_seconds", func(r bootserver.Row) int64 { return r.SilentSeconds })
	silent.Wide = true
	return terminal.List(list, list.Machines, func(r bootserver.Row) string { return r.MAC },
		column("MACHINE", func(r bootserver.Row) string { return r.MAC }),
		column("NODE", func(r bootserver.Row) string { return r.Node }),
		column("STEP", func(r bootserver.Row) string { return r.Step }),
		seconds("SINCE", "age_seconds", func(r bootserver.Row) int64 { return r.AgeSeconds }),
		silent,
		wide("ADDRESS", func(r bootserver.Row) string { return r.Address }),
		wide("SERIAL", func(r bootserver.Row) string { return r.Serial }),
		wide("ASSET", func(r bootserver.Row) string { return r.Asset }),
		wide("UUID", func(r bootserver.Row) string { return r.UUID }),
		wide("STARTS", func(r bootserver.Row) string { return strconv.Itoa(r.Starts) }),
		column("ASSIGNED", func(r bootserver.Row) string { return r.Assignment }),
		wide("SETTINGS", func(r bootserver.Row) string { return r.Assigned }),
		column("ADVICE", func(r bootserver.Row) string { return r.Advice }),
	)
}

// fetchBootList asks a boot server for its machines.
func fetchBootList(ctx context.Context, server string) (*bootserver.List, error) {
	base, err := webAddress("server", server)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeout(ctx, bootListWithin)
	defer stop()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+bootserver.ListPath, nil)
	if err != nil {
		return nil, fmt.Errorf("ask the boot server: %w", err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, writ.Errorf(writ.CodeUnreachable, "cannot reach the boot server: %v", err).WithHint("--server is the address in --list-listen of `writ boot serve`; by default only its own machine reaches it")
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, bootListMost))
	if err != nil {
		return nil, writ.Errorf(writ.CodeUnreachable, "cannot read the answer of the boot server: %v", err)
	}
	list := new(bootserver.List)
	if answer.StatusCode != http.StatusOK || json.Unmarshal(text, list) != nil {
		first, _, _ := strings.Cut(string(text[:min(len(text), 200)]), "\n")
		return nil, writ.Errorf(writ.CodeUnreachable, "%s is no boot server for operators: it answers %s, %s", base, answer.Status, first).
			WithHint("--server is the address in --list-listen of `writ boot serve`")
	}
	return list, nil
}

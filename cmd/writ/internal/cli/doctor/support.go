package doctor

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/help"
	"writ/cmd/writ/internal/redact"
	"writ/cmd/writ/internal/terminal"
)

// mostOfLog limits the part of a log file in a bundle, in bytes. A bundle contains the end of the file.
const mostOfLog = 10 << 20

// part is a file of a bundle: the output of a command, or the end of a log.
type part struct {
	name    string
	command []string
	text    []byte
	exit    int
}

// partView is the entry of a part in the list of a bundle.
type partView struct {
	File    string `json:"file"`
	Bytes   int    `json:"bytes"`
	Command string `json:"command"`
	Exit    int    `json:"exit"`
}

// ofCluster lists the commands whose output is in every bundle.
var ofCluster = []part{
	{name: "version.txt", command: []string{"version"}},
	{name: "doctor.txt", command: []string{"doctor"}},
	{name: "roster.txt", command: []string{"roster", "show"}},
	{name: "coordinators.json", command: []string{"coordinator", "list", "-o", "json"}},
	{name: "datacenters.json", command: []string{"dc", "list", "-o", "json"}},
	{name: "certificates.json", command: []string{"pki", "show", "-o", "json"}},
	{name: "nodes.json", command: []string{"node", "list", "-o", "json"}},
	{name: "tokens.json", command: []string{"token", "list", "-o", "json"}},
	{name: "holds.json", command: []string{"hold", "list", "-o", "json"}},
	{name: "deployments.json", command: []string{"deployment", "list", "-o", "json"}},
	{name: "resources.json", command: []string{"resource", "list", "-o", "json"}},
	{name: "runs.json", command: []string{"run", "list", "-o", "json"}},
	{name: "runs-stuck.json", command: []string{"run", "list", "--stuck", "1m", "-o", "json"}},
	{name: "usage-nodes.json", command: []string{"usage", "--nodes", "-o", "json"}},
}

// ofRun returns the commands about one run.
func ofRun(id string) []part {
	name := "run-" + strings.TrimPrefix(id, "@")
	return []part{
		{name: name + ".json", command: []string{"run", "show", id, "-o", "json"}},
		{name: name + "-explain.txt", command: []string{"run", "explain", id}},
		{name: name + "-log.txt", command: []string{"run", "logs", id}},
	}
}

func supportCommand(env *cli.Env) *cobra.Command {
	var file string
	var runs, logs []string
	c := &cobra.Command{
		Use:   "bundle",
		Short: "Write a support file about the cluster",
		Long: `Runs the commands that show the state of the cluster, and writes their output to a file (tar, gzip). --run
adds all data about a run. --log adds the end of a log file, for example the log of a coordinator.

Private keys, join tokens, the tokens of common services, secret addresses of webhooks and passwords are removed.
The file contains names of people, nodes, scripts and resources, and the logs of scripts. Review it before you share
it.

If one of the commands fails, the file contains its error.`,
		Example: "  writ support bundle\n  writ support bundle --run @last --log /var/log/writ/coord.log --file help.tar.gz",
		Args:    cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			parts := slices.Clone(ofCluster)
			for _, id := range runs {
				parts = append(parts, ofRun(id)...)
			}
			for i := range parts {
				if cmd.Context().Err() != nil {
					return cmd.Context().Err()
				}
				env.Note("writ %s", strings.Join(parts[i].command, " "))
				if err := parts[i].collect(cmd, env); err != nil {
					return err
				}
			}
			for _, path := range logs {
				log, err := endOfLog(path)
				if err != nil {
					return err
				}
				parts = append(parts, log)
			}
			file = cmp.Or(file, time.Now().UTC().Format("writ-support-20060102-150405.tar.gz"))
			if err := writeBundle(file, parts); err != nil {
				return err
			}
			var views []partView
			for _, p := range parts {
				views = append(views, partView{p.name, len(p.text), "writ " + strings.Join(p.command, " "), p.exit})
			}
			env.Note("wrote %s; check its content before you share it", file)
			return env.Print(terminal.List(views, views, func(v partView) string { return v.File },
				cli.Column("FILE", func(v partView) string { return v.File }),
				cli.Column("BYTES", func(v partView) string { return fmt.Sprint(v.Bytes) }),
				cli.Column("EXIT", func(v partView) string { return fmt.Sprint(v.Exit) })))
		},
	}
	c.Flags().StringVar(&file, "file", "", "new file to write; writ-support-TIME.tar.gz if unset")
	c.Flags().StringArrayVar(&runs, "run", nil, "run to include in detail (repeatable)")
	c.Flags().StringArrayVar(&logs, "log", nil, "log file; its last 10 MiB are included (repeatable)")
	return cli.Family("support", "Collect facts about the cluster for support", c)
}

// givenFlags returns the flags of the command `bundle` that select the cluster, the signer and the project, as
// arguments for the command of a part. It omits flags that this command does not read.
func givenFlags(bundle *cobra.Command, command []string) (args []string) {
	of, _, err := bundle.Root().Find(command)
	if err != nil {
		return nil // running the command reports the reason
	}
	ofID := of.HasParent() && of.Parent().Name() == "run" && of.Name() != "list" &&
		!slices.Contains(command, client.LastRun)
	for _, f := range help.Flags(of, help.Client) {
		if ofID && f.Name == "project" {
			continue
		}
		if f := bundle.InheritedFlags().Lookup(f.Name); f != nil && f.Changed {
			args = append(args, "--"+f.Name+"="+strings.Trim(f.Value.String(), "[]"))
		}
	}
	return args
}

// collect runs the command of a part and stores its output.
func (p *part) collect(bundle *cobra.Command, env *cli.Env) error {
	none, err := os.Open(os.DevNull)
	if err != nil {
		return fmt.Errorf("open %s: %w", os.DevNull, err)
	}
	defer none.Close()
	out, err := os.CreateTemp("", "writ-support-")
	if err != nil {
		return fmt.Errorf("make a file for the output of commands: %w", err)
	}
	defer func() { out.Close(); _ = os.Remove(out.Name()) }()
	args := slices.Concat(p.command, givenFlags(bundle, p.command), []string{"--quiet"})
	p.exit = env.Run(args, none, out, out, os.Environ())
	if _, err := out.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("read the output of %s: %w", p.command, err)
	}
	text, err := io.ReadAll(out)
	if err != nil {
		return fmt.Errorf("read the output of %s: %w", p.command, err)
	}
	p.text = []byte(redact.Text(string(text)))
	return nil
}

// endOfLog returns the end of a log file as a part.
func endOfLog(path string) (part, error) {
	fail := func(err error) (part, error) {
		return part{}, writ.Errorf(writ.CodeUsage, "cannot read --log: %v", err).
			WithHint("`journalctl -u writ-coord > coord.log` writes the log of a unit")
	}
	f, err := os.Open(path)
	if err != nil {
		return fail(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fail(err)
	}
	from := max(0, info.Size()-mostOfLog)
	text, err := io.ReadAll(io.NewSectionReader(f, from, mostOfLog))
	if err != nil {
		return fail(err)
	}
	if from > 0 { // redaction would not recognize the rest of a secret in a cut line
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	return part{
		name: "log-" + filepath.Base(path), command: []string{"support", "bundle", "--log", path},
		text: []byte(redact.Text(string(text))),
	}, nil
}

// writeBundle writes the parts to a new file.
func writeBundle(path string, parts []part) (err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, os.ErrExist) {
		return writ.Errorf(writ.CodeConflict, "%s already exists", path).WithHint("name another file with --file")
	}
	if err != nil {
		return fmt.Errorf("make the bundle: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	zip := gzip.NewWriter(f)
	archive := tar.NewWriter(zip)
	for _, p := range parts {
		header := &tar.Header{
			Name: "writ-support/" + p.name, Mode: 0o600, Size: int64(len(p.text)), Format: tar.FormatPAX, ModTime: time.Now(),
		}
		if err := archive.WriteHeader(header); err != nil {
			return fmt.Errorf("write the bundle: %w", err)
		}
		if _, err := archive.Write(p.text); err != nil {
			return fmt.Errorf("write the bundle: %w", err)
		}
	}
	return errors.Join(archive.Close(), zip.Close())
}

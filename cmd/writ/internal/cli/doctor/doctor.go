// Package doctor contains the commands that examine an installation: doctor and support.
package doctor

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/ssh"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/cli/serve"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/config"
	"writ/cmd/writ/internal/daemon"
	"writ/cmd/writ/internal/daemon/runnerd"
	"writ/cmd/writ/internal/redact"
	"writ/cmd/writ/internal/terminal"
	"writ/identity"
	"writ/identity/expiring"
	"writ/internal/sleep"
	"writ/runner/queue/redisqueue"
	"writ/sal/needs"
	"writ/scripts"
)

// finding is the result of one check.
type finding struct {
	Check string `json:"check"`
	// State is ok, warning, problem or skipped. A requirement of a driver is ok, degraded or missing.
	State  string `json:"state"`
	Detail string `json:"detail"`
	Lost   string `json:"lost,omitempty"` // features that do not work because of it
	Fix    string `json:"fix,omitempty"`
}

// about formats the finding without its fix.
func (f finding) about() string {
	if f.Lost == "" {
		return f.Detail
	}
	return f.Detail + ": " + f.Lost
}

// States of a finding. Only a problem sets the exit code to 1. Requirements of a node have the states of package needs
// instead. These states do not change the exit code, because a host that cannot be a node may still be a healthy
// client.
const (
	healthy = "ok"
	suspect = "warning"
	ill     = "problem"
	skipped = "skipped"
)

// mendFault is the fix for a daemon that reports a fault of its store or its Redis.
const mendFault = "remove the named cause, and the daemon continues; replace a damaged store with `writ restore --data DIR FILE`"

// mendRestored is the fix for a journal that lost its end.
const mendRestored = "if the directory is a copy without journal.db-wal, stop the supervisor, and copy the whole " +
	"directory again. Otherwise check `writ resource list` and `writ run list --why`"

// doctorPatience limits each request to another machine.
const doctorPatience = 5 * time.Second

// findingsText formats findings: a paragraph for each, with the fix below it, and at the end the number of findings by
// state.
func findingsText(found []finding, width int) string {
	indent := len(needs.Degraded) + len("  ")
	var b strings.Builder
	count := map[string]int{}
	for _, f := range found {
		count[f.State]++
		paragraphs := []string{f.Check + ": " + f.about()}
		if f.Fix != "" {
			paragraphs = append(paragraphs, "fix: "+f.Fix)
		}
		b.WriteString(terminal.Hanging(f.State, indent, width, paragraphs...))
	}
	var totals []string
	for _, state := range []string{ill, suspect, string(needs.Missing), string(needs.Degraded), skipped, healthy} {
		if count[state] > 0 {
			totals = append(totals, fmt.Sprint(state, ": ", count[state]))
		}
	}
	fmt.Fprintf(&b, "\n%s\n", strings.Join(totals, ", "))
	return b.String()
}

// withoutDoctor replaces the advice to run `writ doctor` in a fix, because it has just run. Fixes contain this advice
// if they come from the hint of an error.
func withoutDoctor(fix string) string {
	return strings.ReplaceAll(fix, "(`writ doctor`)", "(its host starts it with `writ coord --data DIR`)")
}

func doctorCommand(env *cli.Env) *cobra.Command {
	var redis redisqueue.Server
	var host runnerd.HostConfig
	var data, records string
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check this machine and the connection to the cluster, and suggest fixes",
		Long: `Checks this machine and the connection to the cluster, and suggests fixes. For the cluster, it lists the
datacenters, the holds, the stuck runs, and the nodes that are lost, silent, faulty or full. It warns about tokens
of boot servers, batches and certificates that expire soon.

The lines "image: …" to "herodb: …" show the state of the drivers that a node would use on this host. "writ runner
--drivers host" makes the same checks. A degraded driver works except for the feature in its line. A missing driver
does not work. Neither sets the exit code to 1. Flags with the same name as a flag of the runner have the same
meaning.

If no cluster is configured, one line reports it. The checks of coordinators, roster and signing key are skipped,
and the exit code is 0 unless another check finds a problem.

If a systemd unit starts a runner, the command checks whether stopping that unit would also stop machines.

With --redis it also checks that Redis, with the login of a supervisor.

With --journal it searches the journal of a supervisor for runs that no event would wake. The journal is the file
journal.db in the supervisor's data directory, or the address of a PostgreSQL database. The check changes no data,
and the supervisor may keep running. Every supervisor also searches for such runs by itself and logs them.`,
		Example: "  writ doctor\n  writ doctor --data /var/lib/writ/n1\n  writ doctor --journal /var/lib/writ/supervisor/journal.db\n  writ doctor --journal @journal.address",
		Args:    cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			found := append(examine(cmd.Context(), env, data), examineHost(cmd.Context(), data, host)...)
			found = append(found, examineUnits(unitDirs)...)
			if redis.URL != "" {
				if err := serve.FindRedis(&redis); err != nil {
					return err
				}
				found = append(found, examineRedis(cmd.Context(), redis)...)
			}
			if records != "" {
				found = append(found,
					examineJournal(cmd.Context(), records, func() { _ = sleep.For(cmd.Context(), betweenLooks) })...)
			}
			for i, f := range found { // they may quote a secret from a configuration or a flag
				found[i].Detail, found[i].Fix = redact.Text(f.Detail), redact.Text(withoutDoctor(f.Fix))
			}
			err := env.Print(terminal.List(found, found, func(f finding) string { return f.Check },
				cli.Column("CHECK", func(f finding) string { return f.Check }),
				cli.Column("STATE", func(f finding) string { return f.State }),
				cli.Column("DETAIL", finding.about),
				cli.Column("FIX", func(f finding) string { return f.Fix })).
				WithLayout(func(width int) string { return findingsText(found, width) }))
			if err != nil {
				return err
			}
			problems := 0
			for _, f := range found {
				if f.State == ill {
					problems++
				}
			}
			if problems > 0 {
				return &terminal.ExitError{Exit: writ.ExitFailed}
			}
			return nil
		},
	}
	serve.RedisFlags(c, &redis)
	c.Flags().StringVar(&data, "data", config.DefaultData(),
		"state directory of a node on this host, existing or planned")
	c.Flags().StringVar(&records, "journal", "",
		"journal of a supervisor to check: a file, a postgres:// address, or @FILE with an address")
	c.Flags().StringVar(&host.Containerd, "containerd", "", "socket of containerd, if not at its usual place")
	c.Flags().StringVar(&host.Firmware, "firmware", "", "firmware of machines that have no kernel")
	c.Flags().StringVar(&host.ProcessUsers, "process-users", "", serve.ProcessUsers)
	c.Flags().StringVar(&host.ContainerIDs, "container-ids", "", serve.ContainerIDs)
	serve.ImageFlags(c, &host)
	serve.EnginesFlag(c, &host)
	serve.InitFlag(c, &host)
	serve.DeviceFlag(c, &host)
	serve.NameserverFlag(c, &host)
	cli.FromEnvironment(c.Flags(), "data", "containerd", "firmware", "process-users", "container-ids")
	return c
}

// examineRedis checks the settings of a Redis server.
func examineRedis(ctx context.Context, server redisqueue.Server) []finding {
	q, err := server.Open()
	if err != nil {
		return []finding{{Check: "redis", State: ill, Detail: err.Error(), Fix: writ.AsError(err).Hint}}
	}
	defer q.Close()
	ctx, stop := context.WithTimeout(ctx, doctorPatience)
	defer stop()
	version, wrong, err := q.Examine(ctx)
	if err != nil {
		return []finding{{Check: "redis", State: ill, Detail: err.Error(), Fix: cmp.Or(writ.AsError(err).Hint,
			"start it on its host, and check that its address and port are reachable from here")}}
	}
	if len(wrong) == 0 {
		return []finding{{Check: "redis", State: healthy, Detail: "version " + version}}
	}
	found := make([]finding, len(wrong))
	for i, w := range wrong {
		found[i] = finding{Check: "redis", State: suspect, Detail: w.What, Fix: w.Fix}
	}
	return found
}

// examine checks the client, the script sandbox, the data directory and the tools on this machine.
func examine(ctx context.Context, env *cli.Env, data string) []finding {
	found := append(examineClient(ctx, env), examineEvaluator(ctx), examineData(data))
	for _, t := range tools {
		found = append(found, t.examine())
	}
	return found
}

func examineRoster(ctx context.Context, c *client.Client) (*identity.Roster, finding) {
	f := finding{Check: "roster", State: ill}
	ctx, stop := context.WithTimeout(ctx, doctorPatience)
	defer stop()
	roster, err := c.Roster.Newest(ctx)
	if err != nil {
		f.Detail = writ.AsError(err).Message
		f.Fix = writ.AsError(err).Hint
		return nil, f
	}
	return roster, examineAge(roster, time.Now())
}

// examineAge checks the expiry of a verified roster.
func examineAge(roster *identity.Roster, now time.Time) finding {
	f := finding{
		Check: "roster", State: healthy,
		Detail: fmt.Sprintf("version %d, until %s, verified", roster.Version, roster.Expires.Format(time.DateOnly)),
	}
	switch {
	case now.After(roster.Expires):
		f.State, f.Fix = ill, "no datacenter accepts new work until a root operator signs the next version with `writ roster renew`"
	case now.After(roster.RenewFrom()):
		f.State, f.Fix = suspect, "a root operator signs the next version with `writ roster renew`"
	}
	return f
}

// examineRoles reports roles that end within 30 days.
func examineRoles(roster *identity.Roster, now time.Time) (found []finding) {
	if roster == nil {
		return nil
	}
	for _, e := range expiring.Roles(roster, now) {
		found = append(found, finding{Check: "role of " + e.Principal, State: suspect, Detail: e.String(), Fix: e.Renew})
	}
	return found
}

func examineKey(ctx context.Context, env *cli.Env, c *client.Client, roster *identity.Roster) finding {
	f := finding{Check: "signing key", State: ill}
	keys := env.Keys()
	keys.Passphrase = nil // the doctor only inspects the key
	if c != nil && keys.Spec == "" {
		keys.Spec = c.Context.Key
	}
	var known func(ssh.PublicKey) bool
	if roster != nil {
		known = func(k ssh.PublicKey) bool { return client.PrincipalOf(roster, k) != "" }
	}
	key, err := keys.Open(ctx, known)
	if err != nil {
		e := writ.AsError(err)
		f.Detail, f.Fix = e.Message, e.Hint
		return f
	}
	defer key.Close()
	f.State, f.Detail = healthy, key.Spec+" "+cli.Fingerprint(key.PublicKey())
	if roster == nil {
		return f
	}
	if name := client.PrincipalOf(roster, key.PublicKey()); name != "" {
		f.Detail += " is " + name
		return f
	}
	f.State, f.Detail = ill, f.Detail+" is not in the roster"
	f.Fix = "a root operator: writ user add NAME --key '" + client.AuthorizedKey(key.PublicKey()) + "'"
	return f
}

// examineEvaluator evaluates a script in a sandboxed child process, as a supervisor on this machine would, and reports
// the sandbox layers.
func examineEvaluator(ctx context.Context) finding {
	f := finding{
		Check: "script sandbox", State: ill,
		Fix: "supervisors need a Linux host that allows processes to sandbox themselves",
	}
	evaluator, end := daemon.NewEvaluator(slog.New(slog.DiscardHandler), nil)
	defer func() { _ = end() }() // the children end with this process at the latest
	layers, err := evaluator.Confinement(ctx)
	if err == nil {
		bundle := scripts.Bundle{Main: scripts.Source{Name: "doctor.tengo", Text: []byte("a := 1 + 1\n")}}
		_, err = evaluator.Pass(ctx, bundle, scripts.Inputs{}, nil)
	}
	if err != nil {
		f.Detail = "a supervisor cannot evaluate scripts here: " + err.Error()
		return f
	}
	f.State, f.Detail, f.Fix = healthy, "a script was evaluated; its sandbox: "+strings.Join(layers.Held(), ", "), ""
	if missing := layers.Missing(); len(missing) > 0 {
		f.State, f.Detail = suspect, f.Detail+"; missing: "+strings.Join(missing, "; ")
		f.Fix = "boot a kernel with Landlock (5.13 or newer, in its lsm= list) and seccomp, and let containers use both"
	}
	return f
}

// tools lists the programs that clients and supervisors can use. `writ dev` needs none of them.
var tools = []tool{
	{
		"redis-server", []string{"--version"}, "delivers jobs; without it `writ dev` uses a built-in replacement",
		"apt-get install -y redis-server",
	},
	{"ssh-keygen", nil, "makes keys, and signs without writ", "apt-get install -y openssh-client"},
}

// Commands returns the commands of this group.
func Commands(env *cli.Env) []*cobra.Command {
	return cli.InGroup(cli.Administration,
		env.ClientCommands(doctorCommand(env), cli.InProject(supportCommand(env)))...)
}

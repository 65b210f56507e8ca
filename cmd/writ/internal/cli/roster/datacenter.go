package roster

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/cli/held"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/config"
	"writ/cmd/writ/internal/terminal"
	"writ/coord/api"
	"writ/identity"
	"writ/identity/sshsig"
	"writ/internal/reach"
	"writ/internal/sleep"
)

// askEvery is the interval between polls for the registration of a supervisor.
const askEvery = time.Second

func datacenterCommand(env *cli.Env) *cobra.Command {
	c := cli.Family("dc", "Show and add datacenters, and change their settings", datacenterListCommand(env),
		datacenterShowCommand(env), datacenterAddCommand(env), datacenterSetCommand(env))
	c.Aliases = []string{"datacenter"}
	return c
}

func datacenterListCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the datacenters with their health",
		Example: `  writ dc list
  writ dc list -o json`,
		Args: cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := env.Client()
			if err != nil {
				return err
			}
			list, err := api.Answer[api.DatacenterList](c.API.ListDatacenters(cmd.Context()))
			if err != nil {
				return err
			}
			roster, err := env.Roster(cmd.Context(), c)
			if err != nil { // an invalid roster must not hide the list
				env.Warn("the holds are unknown: %v", err)
			}
			held := held.HeldIn(cmd.Context(), c, roster)
			return env.PrintList(terminal.List(list, list.Items, func(d api.Datacenter) string { return d.Name },
				cli.Column("DATACENTER", func(d api.Datacenter) string { return d.Name }),
				cli.Column("REGION", func(d api.Datacenter) string { return d.Region }),
				cli.Column("HEALTH", func(d api.Datacenter) string { return string(d.Health) }),
				cli.Column("SINCE", sinceOf),
				cli.Column("LABELS", func(d api.Datacenter) string { return writ.LabelsText(d.Labels) }),
				cli.Column("WHY NOT", func(d api.Datacenter) string { return cmp.Or(d.Reason, cli.RestoredText(d, time.Now())) }),
				cli.Column("HOLDS", func(d api.Datacenter) string { return held[d.ID] }),
				cli.Column("NEXT", nextOf),
				cli.Wide("VERSION", func(d api.Datacenter) string { return d.Version }),
				cli.Wide("ROSTER", func(d api.Datacenter) string { return cli.Number(d.Roster) }),
				cli.Wide("KEY", func(d api.Datacenter) string { return d.Key }),
				cli.Wide("ID", func(d api.Datacenter) string { return string(d.ID) }),
			), "the roster names no datacenter: `writ dc add` adds the first")
		},
	}
}

// sinceOf formats how long a datacenter is connected, or the time since its last message.
func sinceOf(d api.Datacenter) string {
	if d.IsConnected() {
		return cli.Age(d.Connected)
	}
	return cli.Age(d.Heard)
}

// nextOf returns the command that reconnects a disconnected datacenter, or explains a restored one. The first is
// incomplete, because only the host of the supervisor has the other arguments.
func nextOf(d api.Datacenter) string {
	if d.Enabled && d.IsConnected() && cli.RestoredText(d, time.Now()) != "" {
		return "writ doctor"
	}
	if !d.Enabled || d.IsConnected() {
		return ""
	}
	return "on its host: writ supervisor --data DIR"
}

// newDatacenter holds the arguments of `writ dc add`.
type newDatacenter struct {
	writ.Datacenter
	keyFile   string
	tokenFile string
	wait      time.Duration
	adopt     adoptFlags
}

func datacenterAddCommand(env *cli.Env) *cobra.Command {
	var d newDatacenter
	var labels []string
	c := &cobra.Command{
		Use:   "add NAME",
		Short: "Add a datacenter: wait for its supervisor, and sign its key into the roster",
		Long: `Creates a token for the supervisor of a new datacenter, prints the command that starts it, and waits until
it registers with the coordinator. The token proves that you started this supervisor. Then you sign its key into the
next version of the roster.

The token leaves this machine only if you copy it. --token-file writes it to a file instead of the screen. With
--key the public key of the supervisor comes from a file, and the command does not wait.`,
		Example: `  writ dc add dc1 --region eu --label tier=edge
  writ dc add dc1 --region eu --token-file dc1.token
  writ dc add dc1 --region eu --key supervisor.pub`,
		Args: cli.Exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			d.Name = args[0]
			var err error
			if d.Labels, err = cli.Pairs(labels, "--label"); err != nil {
				return err
			}
			return addDatacenter(cmd.Context(), env, d)
		},
	}
	f := c.Flags()
	f.StringVar(&d.Region, "region", "", "region of the datacenter")
	f.StringArrayVar(&labels, "label", nil, "label as name=value, for the choice of a datacenter (repeatable)")
	f.StringVar(&d.keyFile, "key", "", "file with the supervisor's public key, instead of a token")
	f.StringVar(&d.tokenFile, "token-file", "", "file to write the token to")
	d.adopt.add(c)
	f.DurationVar(&d.wait, "wait", identity.TokenValidity, "time limit of the wait for the supervisor")
	cli.InRange(f, "wait", &d.wait, time.Second, cli.Longest)
	return c
}

func addDatacenter(ctx context.Context, env *cli.Env, d newDatacenter) error {
	if err := checkNewName("datacenter", d.Name); err != nil {
		return err
	}
	if d.Region == "" {
		return writ.Errorf(writ.CodeUsage, "--region is missing").
			WithHint("name the group of datacenters that it belongs to, for example --region europe; scripts can be submitted to a region")
	}
	if err := checkNewName("region", d.Region); err != nil {
		return err
	}
	if err := cli.CheckLabels(d.Labels, "--label"); err != nil {
		return err
	}
	c, before, err := env.Cluster(ctx)
	if err != nil {
		return err
	}
	if have := before.Datacenters.Named(d.Name); have != nil {
		return writ.Errorf(writ.CodeConflict,
			"version %d of the roster has a datacenter %s already; its supervisor has the key %s",
			before.Version, d.Name, sshsig.Fingerprint(have.SupervisorKey)).
			WithHint("if its supervisor does not run yet, start it: writ supervisor --data DIR --dc %s --coordinator %s --redis URL, where DIR "+
				"holds its key; `writ dc list` shows whether it is connected, `writ dc set` changes it", d.Name,
				c.Context.Servers[0])
	}
	by, err := c.Person(ctx, before) // report a missing key before the wait
	if err != nil {
		return err
	}
	by.Close()
	if err := before.Allows(by.Name, identity.ActionGovern, "", time.Now()); err != nil {
		return err
	}
	key, err := supervisorKey(ctx, env, c, before, d)
	if err != nil {
		return err
	}
	return amend(ctx, env, c, d.adopt,
		func(next *identity.Roster) error { return client.AddDatacenter(next, d.Datacenter, key) },
		func(r client.Amended) (amendment, error) { return showDatacenter(env, r, d.Name) }, d.Name)
}

// showDatacenter shows a new datacenter as recorded in the signed roster. It returns the texts about the change.
func showDatacenter(env *cli.Env, r client.Amended, name string) (amendment, error) {
	added := r.Datacenters.Named(name)
	supervisor := sshsig.Fingerprint(added.SupervisorKey)
	m := amendment{change: fmt.Sprintf("datacenter %s, whose supervisor is %s", name, supervisor)}
	showSigned(env, r, m)
	return m, env.Print(terminal.Record(added.Datacenter, string(added.ID),
		terminal.Field{Title: "datacenter", Value: added.Name},
		terminal.Field{Title: "id", Value: string(added.ID)},
		terminal.Field{Title: "region", Value: added.Region},
		terminal.Field{Title: "labels", Value: writ.LabelsText(added.Labels)},
		terminal.Field{Title: "supervisor", Value: supervisor}))
}

// supervisorKey returns the key of the new datacenter's supervisor: from a file, or from its registration with a new
// token.
func supervisorKey(
	ctx context.Context, env *cli.Env, c *client.Client, roster *identity.Roster, d newDatacenter,
) (ed25519.PublicKey, error) {
	if d.keyFile != "" {
		return supervisorKeyFile(env, d.keyFile)
	}
	token := identity.NewToken(roster.Cluster)
	if err := handOutToken(env, c, token, d); err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeout(ctx, d.wait)
	defer stop()
	for {
		r, err := findRegistration(ctx, c, token)
		if err != nil && !writ.AsError(err).Retryable() {
			return nil, err
		}
		if r != nil && r.Name != d.Name {
			return nil, writ.Errorf(writ.CodeConflict, "the supervisor registered for the datacenter %q, not %q", r.Name,
				d.Name).
				WithHint("start it with --dc %s and a new token", d.Name)
		}
		if r != nil {
			return r.Key, nil
		}
		if sleep.For(ctx, askEvery) == nil {
			continue
		}
		if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			return nil, writ.Errorf(writ.CodeTimeout, "no supervisor registered with this token in %s", d.wait).
				WithHint("look at its log; then begin again, with a new token")
		}
		return nil, terminal.Interrupted("nothing was changed; the token is invalid now")
	}
}

// handOutToken shows the token to the user, or writes it to a file, with the command that uses it.
func handOutToken(env *cli.Env, c *client.Client, token identity.Token, d newDatacenter) error {
	join := "WRIT_JOIN=" + token.String()
	if d.tokenFile != "" {
		if err := config.WriteFile(d.tokenFile, []byte(token.String()+"\n")); err != nil {
			return writ.Errorf(writ.CodeUsage, "cannot write the token: %v", err)
		}
		join = "WRIT_JOIN=@" + d.tokenFile
	}
	// Shown even with --quiet, because the user needs it to continue.
	_, err := fmt.Fprintf(env.Err, "Start the supervisor of %s:\n\n  %s %s\n\n", d.Name, join,
		supervisorCommand(d.Name, c.Context.Servers[0]))
	if err != nil {
		return writ.Errorf(writ.CodeUsage, "the token cannot be shown: %v", err).
			WithHint("--token-file FILE writes it to a file; nothing was changed")
	}
	env.Note("… waiting until it registers (at most %s)", d.wait)
	return nil
}

// supervisorCommand returns the command that starts the supervisor of a new datacenter. If the coordinator is not on
// loopback, the nodes are on other machines, too: the supervisor and its Redis then use an address of the host.
func supervisorCommand(datacenter, coordinator string) string {
	command := fmt.Sprintf("writ supervisor --data ./%s --dc %s --coordinator %s ", datacenter, datacenter, coordinator)
	if u, err := url.Parse(coordinator); err != nil || reach.Loopback(u.Hostname()) {
		return command + "--redis redis://127.0.0.1:6379/0 --listen 127.0.0.1:7441"
	}
	return command + "--listen ADDRESS:7441 --redis @redis.url --redis-listen ADDRESS:6379"
}

// findRegistration returns the registration that was made with a token, or nil. Coordinators show the id of the token,
// so anyone can register with it: only the proof identifies the holder of the token.
func findRegistration(ctx context.Context, c *client.Client, token identity.Token) (*api.Registration, error) {
	list, err := api.Answer[api.RegistrationList](c.API.ListRegistrations(ctx))
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(list.Items, func(r api.Registration) bool { return proves(token, r) })
	if i < 0 {
		return nil, nil
	}
	return &list.Items[i], nil
}

// proves reports whether the proof of a registration was made with the token.
func proves(token identity.Token, r api.Registration) bool {
	return r.Token == token.ID && len(r.Key) == ed25519.PublicKeySize &&
		token.Key().Verify(identity.RegistrationText(r.Token, r.Name, r.Key, r.Nonce), r.Proof)
}

// Package secrets contains the command secret.
package secrets

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/cli/signing"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/terminal"
	"writ/coord/api"
	"writ/identity"
	"writ/identity/secret"
)

// Commands returns the commands of this group.
func Commands(env *cli.Env) []*cobra.Command {
	return cli.InGroup(cli.Administration, env.ClientCommands(cli.InProject(secretCommand(env)))...)
}

func secretCommand(env *cli.Env) *cobra.Command {
	return cli.Family("secret", "Set and remove secrets of scripts", secretSetCommand(env), secretListCommand(env),
		secretRemoveCommand(env))
}

// datacenterFlags select one or all datacenters.
type datacenterFlags struct {
	datacenter string
	all        bool
}

func (p *datacenterFlags) add(env *cli.Env, c *cobra.Command) {
	cli.DatacenterFlag(env, c, &p.datacenter, "name or id of the datacenter")
	c.Flags().BoolVar(&p.all, "all-dcs", false, "in every enabled datacenter of the roster")
	c.MarkFlagsMutuallyExclusive("dc", "all-dcs")
}

// chosen returns the selected datacenters.
func (p *datacenterFlags) chosen(
	ctx context.Context, env *cli.Env, c *client.Client, roster *identity.Roster,
) ([]writ.DatacenterID, error) {
	if !p.all {
		id, err := signing.ChooseDatacenter(ctx, env, c, roster, &signing.OrderFlags{Datacenter: p.datacenter}, nil)
		return []writ.DatacenterID{id}, err
	}
	var ids []writ.DatacenterID
	for _, d := range roster.Datacenters {
		if d.Enabled {
			ids = append(ids, d.ID)
		}
	}
	return ids, nil
}

func secretSetCommand(env *cli.Env) *cobra.Command {
	var where datacenterFlags
	var file string
	c := &cobra.Command{
		Use:   "set NAME",
		Short: "Set a secret of a project, or replace its value",
		Long: `Encrypts a value to the supervisor of a datacenter, signs it, and submits it as the next version of the
secret. Only the supervisor can decrypt the value. When a job needs the secret, the supervisor encrypts the value to
the node of the job. You need the role admin in the project.

Enter the value at a prompt without echo, or pass it on standard input. One line ending at the end of standard input
is removed; --file reads a file unchanged. A value is text of at most 32 KiB; encode other data. A value is never an
argument, because every process of the host could read it.

A script reads the value with run.secret("NAME"). It gets the version that was newest when the script was signed. Sign
and submit scripts again after you set a new value. Accepted runs keep their version.`,
		Example: "  writ secret set db-password --project web-shop\n  openssl rand -base64 24 | writ secret set db-password --all-dcs\n  writ secret set tls-key --file web.key --dc dc1",
		Args:    nameAlone,
		RunE: func(cmd *cobra.Command, args []string) error {
			value, err := secretValue(env, args[0], file)
			if err != nil {
				return err
			}
			env.Note("the value has %s", cli.Count(len(value), "byte"))
			return changeSecret(cmd.Context(), env, &where,
				func(ctx context.Context, c *client.Client, by *client.Person, dc writ.DatacenterID, project writ.ProjectID) (api.StatementAnswer, error) {
					return c.Secrets.Set(ctx, by, dc, project, args[0], value)
				})
		},
	}
	where.add(env, c)
	c.Flags().StringVar(&file, "file", "", "file with the value; its content is used unchanged")
	return c
}

// nameAlone requires the name of a secret. Its error does not repeat a value that was given as a second argument.
func nameAlone(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return valueInArgument(args[0])
	}
	return cli.Exactly("NAME")(cmd, args)
}

// valueInArgument returns the error for a command line that contains the value of a secret. A malformed name is not
// repeated, because it can be the value.
func valueInArgument(name string) error {
	if !writ.ValidName(name) {
		name = "NAME"
	}
	return writ.Errorf(writ.CodeUsage, "the argument is the name alone, without a value").
		WithHint("give the value with --file or on standard input: `writ secret set %s --file FILE`. Choose a new value, because this one is in the history of the shell", name)
}

// secretValue reads the value of a secret from a file, the terminal or standard input.
func secretValue(env *cli.Env, name, file string) (string, error) {
	if name, _, ok := strings.Cut(name, "="); ok { // the error does not repeat the value
		return "", valueInArgument(name)
	}
	if !writ.ValidName(name) {
		return "", writ.Errorf(writ.CodeUsage, "%q is not a valid name", name).
			WithHint("use lower-case letters, digits and hyphens; the version number is set automatically")
	}
	var value []byte
	var err error
	switch {
	case file != "":
		value, err = env.ReadFile(file, secret.MaxValue)
	case env.Interactive():
		value, err = askTwice(env, name)
	default:
		if value, err = env.Input(secret.MaxValue + 3); err == nil { // one byte more than the maximum, plus a line ending
			value = bytes.TrimSuffix(bytes.TrimSuffix(value, []byte("\n")), []byte("\r"))
		}
	}
	switch {
	case errors.Is(err, context.Canceled):
		return "", terminal.Interrupted("nothing was set")
	case errors.Is(err, terminal.ErrEnded):
		return "", writ.Errorf(writ.CodeUsage, "nothing was set")
	case err != nil:
		return "", writ.Errorf(writ.CodeUsage, "cannot read the secret: %v", err).
			WithHint("pass the value in a file with --file, or on standard input")
	}
	if err := secret.Check(string(value)); err != nil {
		e := *writ.AsError(err)
		if e.Code == writ.CodeBadRequest {
			e.Code = writ.CodeUsage
		}
		return "", &e
	}
	return string(value), nil
}

// askTwice asks for a secret twice, without echo.
func askTwice(env *cli.Env, name string) ([]byte, error) {
	first, err := env.Hidden("Value of " + name)
	if err != nil {
		return nil, err
	}
	second, err := env.Hidden("Once more")
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(first, second) {
		return nil, writ.Errorf(writ.CodeUsage, "the two values differ")
	}
	return first, nil
}

// changeSecret makes a change in every selected datacenter and reports the results.
func changeSecret(ctx context.Context, env *cli.Env, where *datacenterFlags,
	change func(
		context.Context, *client.Client, *client.Person, writ.DatacenterID, writ.ProjectID,
	) (api.StatementAnswer, error)) error {
	c, roster, err := env.Cluster(ctx)
	if err != nil {
		return err
	}
	project, err := cli.ProjectOf(c, roster)
	if err != nil {
		return err
	}
	datacenters, err := where.chosen(ctx, env, c, roster)
	if err != nil {
		return err
	}
	by, err := c.Person(ctx, roster)
	if err != nil {
		return err
	}
	defer by.Close()
	var answers []api.StatementAnswer
	for _, id := range datacenters {
		answer, err := change(ctx, c, by, id, project.ID)
		if err != nil {
			return inDatacenter(roster, id, err)
		}
		env.Done("%s: %s, in project %s", roster.Datacenter(id).Name, answer.Done, project.Name)
		answers = append(answers, answer)
	}
	if env.Structured() {
		return env.Print(terminal.View{Data: answers})
	}
	return nil
}

// inDatacenter adds the name of the datacenter to an error, if the cluster has several datacenters.
func inDatacenter(roster *identity.Roster, id writ.DatacenterID, err error) error {
	if len(roster.Datacenters) == 1 {
		return err
	}
	e := *writ.AsError(err)
	e.Message = roster.Datacenter(id).Name + ": " + e.Message
	return &e
}

func secretListCommand(env *cli.Env) *cobra.Command {
	var datacenter string
	c := &cobra.Command{
		Use:     "list",
		Short:   "List secrets by name and version, without their values",
		Example: "  writ secret list --project web-shop",
		Args:    cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, roster, err := env.Cluster(cmd.Context())
			if err != nil {
				return err
			}
			list, err := api.Answer[api.SecretList](c.API.ListSecrets(cmd.Context(),
				&api.ListSecretsParams{Datacenter: api.Given(datacenter), Project: api.Given(env.Flags.Project)}))
			if err != nil {
				return err
			}
			asked, err := cli.Answered(env, list.Items,
				func(d api.DatacenterSecrets) (string, *writ.Error) { return d.Name, d.Error })
			if err != nil {
				return err
			}
			var secrets []writ.Secret
			for _, d := range asked {
				secrets = append(secrets, d.Secrets...)
			}
			return env.PrintList(secretTable(list, secrets, roster),
				cli.UnlessSelected(cmd, "no secret is known: `writ secret set` sets the first"))
		},
	}
	cli.DatacenterFlag(env, c, &datacenter, "only secrets of this datacenter")
	return c
}

func secretTable(list api.SecretList, secrets []writ.Secret, roster *identity.Roster) terminal.View {
	return terminal.List(list, secrets, func(s writ.Secret) string { return identity.SecretRef(s.Name, s.Version) },
		cli.Column("SECRET", func(s writ.Secret) string { return s.Name }),
		cli.Column("VERSION", func(s writ.Secret) string { return strconv.Itoa(s.Version) }),
		cli.Column("PROJECT", func(s writ.Secret) string {
			if p := roster.Project(s.Project); p != nil {
				return p.Name
			}
			return string(s.Project)
		}),
		cli.Column("DATACENTER", func(s writ.Secret) string {
			if d := roster.Datacenter(s.Datacenter); d != nil {
				return d.Name
			}
			return string(s.Datacenter)
		}),
		cli.Column("SET BY", func(s writ.Secret) string { return s.SetBy }),
		cli.Whole(cli.Column("SET", func(s writ.Secret) string { return s.Set.Local().Format(time.DateTime) })),
		cli.Column("REMOVED", func(s writ.Secret) string {
			if s.Removed.IsZero() {
				return ""
			}
			return s.Removed.Local().Format(time.DateTime)
		}),
	)
}

func secretRemoveCommand(env *cli.Env) *cobra.Command {
	var where datacenterFlags
	c := &cobra.Command{
		Use:   "remove NAME[@VERSION]",
		Short: "Remove a secret, or its versions up to a given one",
		Long: `Removes the value of a secret from a datacenter: all versions, or with @VERSION this version and all earlier
versions. Unsent calls that need a removed version fail. Containers and databases that received the value keep the
value, so change it there first.`,
		Example: "  writ secret remove db-password@2 --project web-shop\n  writ secret remove api-key --all-dcs",
		Args:    cli.Exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, version, err := signing.ParseSecret(args[0])
			if err != nil {
				return err
			}
			return changeSecret(cmd.Context(), env, &where,
				func(ctx context.Context, c *client.Client, by *client.Person, dc writ.DatacenterID, project writ.ProjectID) (api.StatementAnswer, error) {
					return c.Secrets.Remove(ctx, by, dc, project, name, version)
				})
		},
	}
	where.add(env, c)
	return c
}

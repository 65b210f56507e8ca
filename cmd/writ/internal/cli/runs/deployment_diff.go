package runs

import (
	"cmp"
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/revision"
	"writ/cmd/writ/internal/terminal"
)

func deploymentDiffCommand(env *cli.Env) *cobra.Command {
	var datacenter string
	c := &cobra.Command{
		Use:   "diff NAME A [B]",
		Short: "Show how the signed texts of two revisions differ: script, parameters, images and secrets",
		Long: `Shows how revision B of a deployment differs from revision A, as a unified diff. It compares the script, its
modules, parameters, images with digests, versions of secrets, and permitted deletions. Without B, it compares A with
the newest revision. The command verifies both signatures.

Revisions are inputs: two equal texts can have different effects. "writ plan" shows the effects that a script has now.`,
		Example: "  writ deployment diff web 3\n  writ deployment diff web 2 3 -o json",
		Args: func(cmd *cobra.Command, args []string) error {
			return cmp.Or(cli.AtLeast("NAME", "A")(cmd, args), cli.AtMost(3)(cmd, args))
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			from, err := revisionNumber(args[1])
			if err != nil {
				return err
			}
			to := revision.Newest
			if len(args) == 3 {
				if to, err = revisionNumber(args[2]); err != nil {
					return err
				}
			}
			return diffRevisions(cmd.Context(), env, args[0], datacenter, from, to)
		},
	}
	c.ValidArgsFunction = env.Completion(cli.SuggestDeployments)
	cli.DatacenterFlag(env, c, &datacenter, "datacenter of the deployment, if the name is ambiguous")
	return c
}

// revisionNumber parses the number of a revision.
func revisionNumber(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > client.MostListed {
		return 0, writ.Errorf(writ.CodeUsage, "%q is not the number of a revision", text).
			WithHint("`writ deployment history NAME` lists the revisions")
	}
	return n, nil
}

// revisionDiff is the JSON and YAML form of the differences of two revisions.
type revisionDiff struct {
	Deployment string          `json:"deployment"`
	From       int             `json:"from"`
	To         int             `json:"to"`
	Parts      []revision.Part `json:"parts"`
}

func diffRevisions(ctx context.Context, env *cli.Env, name, datacenter string, from, to int) error {
	c, d, err := cli.FindDeployment(ctx, env, name, datacenter)
	if err != nil {
		return err
	}
	roster, err := env.Roster(ctx, c)
	if err != nil {
		return err
	}
	older, err := d.Read(ctx, c, roster, from)
	if err != nil {
		return err
	}
	newer, err := d.Read(ctx, c, roster, to)
	if err != nil {
		return err
	}
	if older.Number == newer.Number {
		return writ.Errorf(writ.CodeUsage, "revision %d is compared with itself", from).
			WithHint("`writ deployment history %s` lists the others", name)
	}
	noteSigners(env, name, older, newer)
	parts := revision.Diff(older, newer)
	if env.Format == terminal.Table || env.Format == terminal.Wide {
		if len(parts) == 0 {
			env.Note("the revisions %d and %d have the same script, parameters, images and secrets", older.Number, newer.Number)
		}
		return env.PrintExact([]byte(diffText(parts)), paintDiff(env))
	}
	if parts == nil {
		parts = []revision.Part{}
	}
	data := revisionDiff{Deployment: name, From: older.Number, To: newer.Number, Parts: parts}
	return env.Print(terminal.View{Data: data, Names: partNames(parts)})
}

// noteSigners names the signer of each revision, or warns that its key was revoked.
func noteSigners(env *cli.Env, name string, all ...*revision.Revision) {
	for _, r := range all {
		if r.Revoked != nil {
			env.Warn("revision %d of %s was signed with a key of %s, and another person may have used it: %v", r.Number, name,
				r.Payload.Signer, r.Revoked)
			continue
		}
		env.Note("revision %d of %s, signed by %s at %s", r.Number, name, cli.SignedBy(r.Payload.Signer, r.Certificate),
			cli.Clock(r.Payload.Created))
	}
}

func partNames(parts []revision.Part) (names []string) {
	for _, p := range parts {
		names = append(names, p.Name)
	}
	return names
}

// diffText joins the diffs of parts.
func diffText(parts []revision.Part) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Diff)
	}
	return b.String()
}

// paintDiff returns a function that colours a line of a diff.
func paintDiff(env *cli.Env) func(line string) string {
	return func(line string) string {
		switch {
		case strings.HasPrefix(line, "--- "), strings.HasPrefix(line, "+++ "):
			return env.Paint(terminal.Title, line)
		case strings.HasPrefix(line, "+"):
			return env.Paint(terminal.Good, line)
		case strings.HasPrefix(line, "-"):
			return env.Paint(terminal.Bad, line)
		case strings.HasPrefix(line, "@@"):
			return env.Paint(terminal.Dim, line)
		}
		return line
	}
}

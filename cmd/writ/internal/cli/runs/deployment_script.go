package runs

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/revision"
	"writ/cmd/writ/internal/terminal"
	"writ/identity"
	"writ/identity/header"
)

// scriptFlags hold the options of `writ deployment script`.
type scriptFlags struct {
	datacenter, module string
	revision           int
	parameters         bool
}

func deploymentScriptCommand(env *cli.Env) *cobra.Command {
	var f scriptFlags
	c := &cobra.Command{
		Use:   "script NAME",
		Short: "Print the signed script or the parameters of a revision again",
		Long: `Prints the script of a revision as it was signed, by default of the newest one. --parameters prints the parameters
instead, in the form of a file for "writ submit --params", and --module a module that the script imports. A file gets the
exact bytes; a terminal shows invisible characters as escapes.

The command verifies the signature by the roster, and prints no text that its signer did not sign for this revision.
Secrets are named with their versions in -o json. Their values are not part of the signed text.`,
		Example: `  writ deployment script web
  writ deployment script web --revision 3 > web.tengo
  writ deployment script web --revision 3 --parameters > web.json`,
		Args: cli.Exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return script(cmd.Context(), env, args[0], f)
		},
	}
	c.ValidArgsFunction = env.Completion(cli.SuggestDeployments)
	cli.DatacenterFlag(env, c, &f.datacenter, "datacenter of the deployment, if the name is ambiguous")
	flags := c.Flags()
	revisionFlag(c, "revision", &f.revision, "number of the revision; by default the newest one")
	flags.BoolVar(&f.parameters, "parameters", false, "print the parameters instead of the script")
	flags.StringVar(&f.module, "module", "", "print this module instead of the script")
	c.MarkFlagsMutuallyExclusive("parameters", "module")
	return c
}

// revisionFlag adds a flag for the number of a revision.
func revisionFlag(c *cobra.Command, name string, number *int, usage string) {
	c.Flags().IntVar(number, name, revision.Newest, usage)
	cli.InRange(c.Flags(), name, number, 1, client.MostListed)
}

// signedText is a file of a signed text.
type signedText struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// signedScript is the JSON and YAML form of a revision's signed text.
type signedScript struct {
	Revision    int                   `json:"revision"`
	Run         writ.RunID            `json:"run"`
	Project     string                `json:"project"`
	Deployment  string                `json:"deployment"`
	Uses        []string              `json:"uses,omitempty"`
	Signer      string                `json:"signer"`
	Certificate *identity.Certificate `json:"certificate,omitempty"`
	Revoked     bool                  `json:"revoked,omitempty"` // the signing key or its owner
	Signed      time.Time             `json:"signed"`            // by the clock of the signer
	Script      signedText            `json:"script"`
	Modules     []signedText          `json:"modules,omitempty"`
	Parameters  map[string]any        `json:"parameters"`
	Destructive []string              `json:"destructive,omitempty"`
	Prune       []string              `json:"prune,omitempty"`
	Secrets     []string              `json:"secrets,omitempty"`
	Images      []string              `json:"images,omitempty"`
	Plan        writ.Digest           `json:"plan,omitzero"`
	MaxCalls    int                   `json:"max_calls"`
	Deadline    string                `json:"deadline"`
}

func signedScriptOf(r *revision.Revision) signedScript {
	p := r.Payload
	s := signedScript{
		Revision: r.Number, Run: r.Run.ID, Project: p.ProjectName, Deployment: p.Deployment.Name, Uses: p.Uses,
		Signer:      p.Signer,
		Certificate: r.Certificate, Revoked: r.Revoked != nil, Signed: p.Created,
		Script: signedText{p.Script.Name, string(p.Script.Text)}, Parameters: p.Params, Destructive: p.Targets,
		Prune: p.Prune, Secrets: p.Secrets, Images: p.Images, Plan: p.Plan, MaxCalls: p.MaxCalls,
		Deadline: header.FormatDuration(p.Deadline),
	}
	for _, m := range p.Modules {
		s.Modules = append(s.Modules, signedText{m.Name, string(m.Text)})
	}
	return s
}

func script(ctx context.Context, env *cli.Env, name string, f scriptFlags) error {
	c, d, err := cli.FindDeployment(ctx, env, name, f.datacenter)
	if err != nil {
		return err
	}
	roster, err := env.Roster(ctx, c)
	if err != nil {
		return err
	}
	r, err := d.Read(ctx, c, roster, f.revision)
	if err != nil {
		return err
	}
	text, ok := r.File(f.module)
	if !ok {
		return noModule(r, f.module)
	}
	noteSigners(env, name, r)
	asText := env.Format == terminal.Table || env.Format == terminal.Wide
	switch {
	case f.parameters && asText:
		return env.PrintJSON(r.Payload.Params)
	case f.parameters:
		return env.Print(terminal.View{Data: r.Payload.Params, Names: r.Parameters()})
	case asText:
		if own := r.Modules(); len(own) > 0 && f.module == "" {
			env.Note("--module prints one of its modules: %s", strings.Join(own, ", "))
		}
		return env.PrintExact(text, nil)
	}
	return env.Print(terminal.View{Data: signedScriptOf(r), Names: []string{r.Payload.Script.Name}})
}

// noModule returns the error for a module that a script does not import.
func noModule(r *revision.Revision, name string) error {
	e := writ.Errorf(writ.CodeNotFound, "revision %d imports no module %s", r.Number, name)
	if own := r.Modules(); len(own) > 0 {
		return e.WithHint("its own modules are %s", strings.Join(own, ", "))
	}
	return e.WithHint("it has no modules of its own: leave --module out, or use %s", fmt.Sprintf("`writ library show %s`", name))
}

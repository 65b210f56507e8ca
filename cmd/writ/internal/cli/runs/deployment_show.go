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
	"writ/coord/api"
	"writ/identity"
)

func deploymentShowCommand(env *cli.Env) *cobra.Command {
	var datacenter string
	c := &cobra.Command{
		Use:   "show NAME",
		Short: "Show a deployment: its newest revision with signer, script and parameters, and its resources",
		Long: `Shows the newest revision of a deployment with its signer, script and parameters, the newest run, and the resources
with their states and addresses.

The command verifies the signature of the revision. States and addresses are as the coordinator has them.`,
		Example: "  writ deployment show web\n  writ deployment show web -o json",
		Args:    cli.Exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			all, where, err := deployments(cmd.Context(), env,
				api.ListDeploymentsParams{Datacenter: api.Given(datacenter), Name: &args[0]})
			if err != nil {
				return err
			}
			switch len(all) {
			case 0:
				return noDeployment(cmd.Context(), env, args[0], datacenter)
			case 1:
				return showDeployment(cmd.Context(), env, all[0], where)
			default:
				return writ.Errorf(writ.CodeConflict, "%d deployments have the name %s", len(all), args[0]).
					WithHint("add --project or --dc")
			}
		},
	}
	c.ValidArgsFunction = env.Completion(cli.SuggestDeployments)
	cli.DatacenterFlag(env, c, &datacenter, "datacenter of the deployment, if the name is ambiguous")
	return c
}

// shownDeployment is the JSON and YAML form of a deployment with its newest revision and its resources.
type shownDeployment struct {
	api.Deployment
	Newest *shownRevision       `json:"newest,omitempty"` // nil if its text cannot be read or verified
	Owned  []api.ListedResource `json:"owned"`
}

// shownRevision describes the signed text of a revision.
type shownRevision struct {
	Revision    int                   `json:"revision"`
	Signer      string                `json:"signer"`
	Certificate *identity.Certificate `json:"certificate,omitempty"`
	Revoked     bool                  `json:"revoked,omitempty"` // the signing key or its owner
	Signed      time.Time             `json:"signed"`            // by the clock of the signer
	Script      string                `json:"script"`
	Parameters  map[string]any        `json:"parameters"`
	Images      []string              `json:"images,omitempty"`
	Secrets     []string              `json:"secrets,omitempty"`
}

func showDeployment(
	ctx context.Context, env *cli.Env, d api.Deployment, datacenters map[writ.DatacenterID]string,
) error {
	c, err := env.Client()
	if err != nil {
		return err
	}
	shown := shownDeployment{Deployment: d}
	if shown.Owned, err = c.Listed(ctx, api.ListResourcesParams{
		Project: api.Given(string(d.Project)), Datacenter: api.Given(string(d.Datacenter)), Deployment: &d.Name,
	}); err != nil {
		return err
	}
	if shown.Newest, err = newestRevision(ctx, env, c, d); err != nil {
		if ctx.Err() != nil {
			return err
		}
		env.Warn("the script of the newest revision is not shown: %v", err)
	}
	nodes := nodeNames(ctx, c, d.Datacenter)
	return env.Print(terminal.View{Data: shown, Names: []string{d.Name}, Text: func(wide bool) string {
		return deploymentText(shown, datacenters, nodes, wide)
	}})
}

// newestRevision reads and verifies the text of the newest revision.
func newestRevision(ctx context.Context, env *cli.Env, c *client.Client, d api.Deployment) (*shownRevision, error) {
	roster, err := env.Roster(ctx, c)
	if err != nil {
		return nil, err
	}
	of := revision.Deployment{Project: d.Project, ProjectName: d.ProjectName, Datacenter: d.Datacenter, Name: d.Name}
	r, err := of.Read(ctx, c, roster, revision.Newest)
	if err != nil {
		return nil, err
	}
	return &shownRevision{
		Revision: r.Number, Signer: r.Payload.Signer, Certificate: r.Certificate, Revoked: r.Revoked != nil,
		Signed: r.Payload.Created, Script: r.Payload.Script.Name, Parameters: r.Payload.Params, Images: r.Payload.Images,
		Secrets: r.Payload.Secrets,
	}, nil
}

// nodeNames returns the names of the nodes of a datacenter. It is empty without the right to list nodes.
func nodeNames(ctx context.Context, c *client.Client, datacenter writ.DatacenterID) map[writ.NodeID]string {
	all, _ := c.Nodes.List(ctx, api.ListNodesParams{Datacenter: api.Given(string(datacenter))})
	names := make(map[writ.NodeID]string)
	for _, n := range all {
		names[n.ID] = n.Name
	}
	return names
}

func deploymentText(
	d shownDeployment, datacenters map[writ.DatacenterID]string, nodes map[writ.NodeID]string, wide bool,
) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s of project %s owns %s in %s\n", terminal.Clean(d.Name), terminal.Clean(d.ProjectName),
		cli.Count(d.Resources, "resource"),
		terminal.Clean(datacenters[d.Datacenter]))
	if r := d.Newest; r != nil {
		by := cli.SignedBy(r.Signer, r.Certificate)
		if r.Revoked {
			by += ", whose key was revoked since"
		}
		fmt.Fprintf(&b, "  revision: %d, signed by %s at %s\n  script: %s\n", r.Revision, terminal.Clean(by),
			cli.Clock(r.Signed), terminal.Clean(r.Script))
		if len(r.Parameters) > 0 {
			fmt.Fprintf(&b, "  parameters: %s\n", terminal.Clean(revision.ParametersText(r.Parameters)))
		}
		if len(r.Images) > 0 {
			fmt.Fprintf(&b, "  images: %s\n", terminal.Clean(strings.Join(r.Images, ", ")))
		}
	} else if d.Revision > 0 {
		fmt.Fprintf(&b, "  revision: %d\n", d.Revision)
	}
	if d.Run != nil {
		fmt.Fprintf(&b, "  newest run: %s, %s, %s, signed by %s %s ago\n", d.Run.ID, d.Run.State,
			terminal.Clean(d.Run.Script),
			terminal.Clean(d.Run.Signer), cli.Age(d.Run.Created))
		if d.Run.Reason != "" {
			fmt.Fprintf(&b, "    %s\n", terminal.Clean(d.Run.Reason))
		}
	} else {
		b.WriteString("  the coordinator has deleted all of its runs\n")
	}
	b.WriteString("\n" + ownedTable(d.Owned, nodes).Text(wide))
	where := fmt.Sprintf("--project %s --dc %s", terminal.Clean(d.ProjectName), terminal.Clean(datacenters[d.Datacenter]))
	fmt.Fprintf(&b, "\n  its resources: writ resource list %s --deployment %s\n  its revisions: writ deployment history %s %s\n",
		where, terminal.Clean(d.Name), terminal.Clean(d.Name), where)
	return b.String()
}

func ownedTable(owned []api.ListedResource, nodes map[writ.NodeID]string) terminal.View {
	return terminal.List(nil, owned, func(r api.ListedResource) string { return string(r.Kind) + "/" + r.Name },
		cli.Column("KIND", func(r api.ListedResource) string { return string(r.Kind) }),
		cli.Column("NAME", func(r api.ListedResource) string { return r.Name }),
		cli.Column("STATE", cli.StateNow),
		cli.Column("ADDRESS", func(r api.ListedResource) string { return strings.TrimSpace(r.Address + " " + r.IPv4) }),
		cli.Column("NODE", func(r api.ListedResource) string { return nodes[r.Node] }),
		cli.Column("AGE", func(r api.ListedResource) string { return cli.Age(r.Created) }),
		cli.Wide("RUN", func(r api.ListedResource) string { return string(r.Run) }),
		cli.Column("DRIFT", func(r api.ListedResource) string { return strings.Join(r.Drift, "; ") }),
	)
}

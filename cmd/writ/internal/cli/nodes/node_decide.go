package nodes

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/redact"
	"writ/coord/api"
	"writ/identity"
)

// nodeFlags select the node of a decision.
type nodeFlags struct {
	client.NodeName
	reason  cli.ReasonFlag
	removed bool // removed nodes can be selected
}

func (n *nodeFlags) add(env *cli.Env, c *cobra.Command) {
	c.ValidArgsFunction = env.Completion(cli.SuggestNodes)
	cli.DatacenterFlag(env, c, &n.Datacenter, "datacenter of the node, if there are several")
	c.Flags().StringVar(&n.Fingerprint, "fingerprint", "",
		"fingerprint of the node's key, SHA256:…, shown by the machine itself")
	n.reason.Add(c, "writ node show")
}

// nodeDecision returns the command of a decision about a node. Its only argument is the name of the node.
func nodeDecision(env *cli.Env, decision, short string) *cobra.Command {
	var node nodeFlags
	c := &cobra.Command{
		Use:     decision + " NODE",
		Short:   short,
		Example: "  writ node " + decision + " n1",
		Args:    cli.Exactly("NODE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			node.Node = args[0]
			return decideNode(cmd.Context(), env, node, func(s *identity.Statement) { s.Decision = decision })
		},
	}
	node.add(env, c)
	return c
}

func nodeCordonCommand(env *cli.Env) *cobra.Command {
	c := nodeDecision(env, "cordon", "Send a node no new work; its resources and calls continue")
	c.Long = `Signs that a node gets no new work. Its resources and calls continue. Scripts can still change its resources.

A new container in a network of the node is still created there, like other resources that need a resource of the
node. To prevent this, hold the deployment with "writ hold --deployment NAME". To move a deployment, delete its
resources on the node, and submit its script again: the script then creates them on another node.

"writ node drain" signs the same, lists the resources of the node, and can wait for its calls.`
	return c
}

func nodeApproveCommand(env *cli.Env) *cobra.Command {
	c := nodeAdmission(env, "approve", "Admit a waiting node")
	c.Long = `Signs that the machine with this key is a node of the datacenter. You need the role admin.

Read the fingerprint of the key on the machine itself: "writ runner" prints it while it waits. Do not copy it from a
list. Lists come from a coordinator, which may show the key of another machine under the expected name.

To admit many machines at once by their serial numbers, use "writ batch create".`
	return c
}

func nodeRejectCommand(env *cli.Env) *cobra.Command {
	c := nodeAdmission(env, "reject", "Reject a waiting node")
	c.Long = `Signs that the machine with this key is never admitted to the datacenter. You need the role admin.

Waiting nodes may share a name, so the fingerprint identifies the node. First compare it with the fingerprints on
your own machines: "writ runner" prints it while it waits. Lists come from a coordinator, which may show the key of
your machine as that of a stranger.`
	return c
}

// nodeAdmission returns the command of a decision about a waiting node. Several nodes may wait under one name, so the
// user gives the fingerprint.
func nodeAdmission(env *cli.Env, decision, short string) *cobra.Command {
	var node nodeFlags
	const print = "SHA256:lhXIqqvCdxDgGiVWxYjSJ8Z4cJATM0VVIj0f1sg9b8k"
	c := &cobra.Command{
		Use:   decision + " NODE [FINGERPRINT]",
		Short: short,
		Example: "  writ node " + decision + " n1 " + print + "\n  writ node " + decision + " n1 --dc dc1 --fingerprint " +
			print,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cli.AtLeast("NODE")(cmd, args); err != nil {
				return err
			}
			return cli.AtMost(2)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			node.Node = args[0]
			example := "writ node " + decision + " " + node.Node + " SHA256:…"
			if len(args) == 2 {
				if node.Fingerprint != "" && node.Fingerprint != args[1] {
					return writ.Errorf(writ.CodeUsage, "two fingerprints are given, and they differ").WithHint("give one: %s", example)
				}
				node.Fingerprint = args[1]
			}
			if node.Fingerprint == "" {
				return writ.Errorf(writ.CodeUsage, "the fingerprint of the node's key is missing").
					WithHint("read it on the machine, where `writ runner` prints it while it waits: %s", example)
			}
			return decideNode(cmd.Context(), env, node, func(s *identity.Statement) { s.Decision = decision })
		},
	}
	node.add(env, c)
	return c
}

// check rejects an invalid fingerprint.
func (n *nodeFlags) check() error {
	if n.Fingerprint != "" && !identity.ValidFingerprint(n.Fingerprint) {
		return writ.Errorf(writ.CodeUsage, "%q is not a fingerprint", n.Fingerprint).
			WithHint("it has the form SHA256: and 43 characters")
	}
	return nil
}

// checkAdmission returns nil if the supervisor of a node has signed that the node has this admission. Such a signature
// identifies the node: no two approved nodes of a datacenter share a name, and a removed node gets no new resources.
func checkAdmission(
	ctx context.Context, c *client.Client, roster *identity.Roster, n writ.Node, admission writ.Admission,
) error {
	standing, err := c.Nodes.Standing(ctx, roster, n)
	switch code := writ.CodeOf(err); {
	case err == nil && standing.Admission == admission:
		return nil
	case err != nil && code != writ.CodeNotFound && code != writ.CodeVerbUnsupported:
		return err
	}
	return writ.Errorf(writ.CodeUsage, "node %s is not known to be %s, and other nodes with this name may be waiting", n.Name,
		map[writ.Admission]string{writ.AdmissionApproved: "admitted", writ.AdmissionRemoved: "removed"}[admission]).
		WithHint("add --fingerprint SHA256:… as the machine itself shows it")
}

// namedNode returns the node that the user named.
func namedNode(ctx context.Context, env *cli.Env, name nodeFlags) (*client.Client, *identity.Roster, writ.Node, error) {
	if err := name.check(); err != nil {
		return nil, nil, writ.Node{}, err
	}
	c, roster, err := env.Cluster(ctx)
	if err != nil {
		return nil, nil, writ.Node{}, err
	}
	if name.Datacenter == "" && len(roster.Datacenters) > 1 && env.Interactive() {
		if name.Datacenter, err = askDatacenter(ctx, env, c, roster, name.Node); err != nil {
			return nil, nil, writ.Node{}, err
		}
	}
	find := c.Nodes.Find
	if name.removed {
		find = c.Nodes.FindOrRemoved
	}
	n, err := find(ctx, roster, name.NodeName)
	return c, roster, n, err
}

// askDatacenter asks the user to confirm the datacenter of a node, and returns its name. It returns "" unless the
// coordinator lists the node in exactly one datacenter. The datacenter is part of the signed decision, and a hostile
// coordinator could list the node in another one. So a command without a terminal needs --dc.
func askDatacenter(
	ctx context.Context, env *cli.Env, c *client.Client, roster *identity.Roster, node string,
) (string, error) {
	nodes, err := c.Nodes.List(ctx, api.ListNodesParams{})
	if err != nil {
		return "", err
	}
	in := client.DatacentersOf(node, nodes, roster)
	if len(in) != 1 {
		return "", nil
	}
	return in[0], cli.ConfirmSigning(env, fmt.Sprintf("sign for node %s of %s, where the coordinator lists it", node, in[0]),
		"name the datacenter with --dc NAME")
}

// decideNode signs and submits a decision about the node that the user named. fill sets the decision.
func decideNode(ctx context.Context, env *cli.Env, name nodeFlags, fill func(*identity.Statement)) error {
	c, roster, n, err := namedNode(ctx, env, name)
	if err != nil {
		return err
	}
	return decideAbout(ctx, env, c, roster, n, name, fill)
}

// decideAbout checks that n is the node that the user means, and then signs and submits a decision about it.
func decideAbout(
	ctx context.Context, env *cli.Env, c *client.Client, roster *identity.Roster, n writ.Node, name nodeFlags,
	fill func(*identity.Statement),
) error {
	if err := isMeant(ctx, c, roster, n, name); err != nil {
		return err
	}
	return signAbout(ctx, env, c, roster, n, name, fill)
}

// isMeant checks that n is the node that the user means, because the coordinator could return another node of the same
// name. The proof is the fingerprint, or a signed admission: the node is approved, or removed if the decision allows
// that.
func isMeant(ctx context.Context, c *client.Client, roster *identity.Roster, n writ.Node, name nodeFlags) error {
	switch {
	case name.Fingerprint != "":
		return nil
	case name.removed && n.Admission == writ.AdmissionRemoved:
		return checkAdmission(ctx, c, roster, n, writ.AdmissionRemoved)
	}
	return checkAdmission(ctx, c, roster, n, writ.AdmissionApproved)
}

// signAbout signs and submits a decision about a node.
func signAbout(
	ctx context.Context, env *cli.Env, c *client.Client, roster *identity.Roster, n writ.Node, name nodeFlags,
	fill func(*identity.Statement),
) error {
	statement := client.AboutNode(n)
	statement.Reason = string(name.reason)
	fill(&statement)
	env.Note("signing: %s node %s in %s, key %s", statement.Decision, n.Name, roster.Datacenter(n.Datacenter).Name, n.Key)
	if err := cli.Decide(ctx, env, c, statement); err != nil {
		return err
	}
	c.Nodes.AwaitNews(ctx, n, statement.Decision)
	return nil
}

func nodeLabelCommand(env *cli.Env) *cobra.Command {
	var node nodeFlags
	c := &cobra.Command{
		Use:   "label NODE NAME=VALUE|NAME-...",
		Short: "Set or remove labels of a node, which scripts select",
		Long: `Signs labels of a node, or new values of existing ones. NAME- removes a label. Other labels stay. You need
the role operator or admin.

A script requests them with the option labels: {labels: {disk: "ssd"}}. Labels only affect the placement of new
resources. A resource stays on its node when labels change. A node cannot label itself, so an attacker on a node
cannot attract work to it.`,
		Example: "  writ node label n1 disk=ssd rack=a1\n  writ node label n1 rack-",
		Args:    cli.AtLeast("NODE", "NAME=VALUE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			change, err := labelChange(args[1:])
			if err != nil {
				return err
			}
			node.Node = args[0]
			return decideNode(cmd.Context(), env, node, func(s *identity.Statement) {
				change.Statement(s,
					writ.NodeID(strings.TrimPrefix(s.Subject, "node/")))
			})
		},
	}
	node.add(env, c)
	return c
}

// labelChange parses a change of a node's labels: NAME=VALUE sets a label, NAME- removes it.
func labelChange(words []string) (identity.LabelChange, error) {
	change := identity.LabelChange{Set: make(map[string]string)}
	if len(words) > writ.MaxLabels {
		return change, writ.Errorf(writ.CodeUsage, "%d labels are too many: a node can have at most %d", len(words),
			writ.MaxLabels)
	}
	seen := make(map[string]bool)
	for _, word := range words {
		name, value, set := strings.Cut(word, "=")
		remove := false
		if !set {
			name, remove = strings.CutSuffix(word, "-")
		}
		switch {
		case !set && !remove || !writ.ValidLabel(name, value):
			return change, writ.Errorf(writ.CodeUsage, "invalid label change %q", word).
				WithHint("disk=ssd sets the label disk, and disk- removes it; names have lower-case letters, digits and hyphens, values up to 63 letters, digits and . _ / -")
		case redact.Holds(value):
			return change, cli.HoldsSecret("the label " + name)
		case seen[name]:
			return change, writ.Errorf(writ.CodeUsage, "the label %s is named twice", name)
		case set:
			change.Set[name] = value
		default:
			change.Remove = append(change.Remove, name)
		}
		seen[name] = true
	}
	return change, nil
}

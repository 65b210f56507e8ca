package nodes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/terminal"
	"writ/coord/api"
	"writ/identity"
	"writ/internal/sleep"
)

func nodeDrainCommand(env *cli.Env) *cobra.Command {
	var node nodeFlags
	var wait bool
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "drain NODE",
		Short: "Send a node no new resources, and mark it as drained when its calls have ended",
		Long: `Signs that a node gets no new resources, and lists its current ones. Its open calls continue. When they have
ended, the node is drained. Draining moves no resources. A script can still change a resource on the node, and create
others that need it; "writ node cordon --help" explains how to prevent this.

With --wait the command waits until the supervisor of the datacenter has signed that the node is drained. If the
node is already draining, the command signs no new statement and only waits. Resources and open calls are the
coordinator's unverified data.`,
		Example: "  writ node drain n1\n  writ node drain n1 --wait --timeout 30m --reason \"a new disk\"",
		Args:    cli.Exactly("NODE"),
		PreRunE: func(*cobra.Command, []string) error {
			if timeout > 0 && !wait {
				return writ.Errorf(writ.CodeUsage, "--timeout %s needs --wait", timeout).
					WithHint("use both, as in --wait --timeout 30m")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			node.Node = args[0]
			return drain(cmd.Context(), env, node, wait, timeout)
		},
	}
	node.add(env, c)
	c.Flags().BoolVar(&wait, "wait", false, "wait until the node is drained")
	c.Flags().DurationVar(&timeout, "timeout", 0,
		"with --wait: longest time to wait; the node continues to drain (exit code 6)")
	cli.InRange(c.Flags(), "timeout", &timeout, time.Millisecond, cli.Longest)
	return c
}

// drain signs the decision to drain a node, and lists the resources that remain on it. If the user wants to wait and
// the supervisor has already signed that the node is draining, drain does not sign again.
func drain(ctx context.Context, env *cli.Env, name nodeFlags, wait bool, timeout time.Duration) error {
	c, roster, n, err := namedNode(ctx, env, name)
	if err != nil {
		return err
	}
	if !wait || !isDraining(ctx, c, roster, n) {
		err := decideAbout(ctx, env, c, roster, n, name, func(s *identity.Statement) { s.Decision = "drain" })
		if err != nil {
			return err
		}
	}
	if _, err := noteResources(ctx, env, c, n, "which draining does not move"); err != nil {
		return err
	}
	if !wait {
		if _, err := noteOpen(ctx, env, c, n, ""); err != nil {
			return err
		}
		env.Note("`writ node drain %s --wait` waits until it is drained", n.Name)
		return nil
	}
	return awaitDrained(ctx, env, c, roster, n, timeout)
}

// maxResources limits how many resources of a node are listed.
const maxResources = 20

// noteResources shows the resources on a node and returns their number. The text `becomes` describes the fate of the
// resources.
func noteResources(ctx context.Context, env *cli.Env, c *client.Client, n writ.Node, becomes string) (int, error) {
	resources, err := c.Resources(ctx,
		api.ListResourcesParams{Datacenter: api.Given(string(n.Datacenter)), Node: api.Given(n.ID)})
	if err != nil || len(resources) == 0 {
		return 0, err
	}
	env.Note("%s on %s, %s:", cli.Count(len(resources), "resource"), n.Name, becomes)
	for i, r := range resources {
		if i == maxResources {
			env.Note("  and %d more: `writ resource list --node %s`", len(resources)-i, n.Name)
			break
		}
		env.Note("  %s/%s", r.Kind, terminal.Clean(r.Name))
	}
	return len(resources), nil
}

// noteOpen formats the open calls of a node and returns the text. It prints the text unless it equals `before`. If the
// datacenter does not answer, the next poll asks again.
func noteOpen(ctx context.Context, env *cli.Env, c *client.Client, n writ.Node, before string) (string, error) {
	queues, err := api.Answer[api.QueueList](c.API.ListQueues(ctx,
		&api.ListQueuesParams{Datacenter: api.Given(string(n.Datacenter))}))
	if err != nil {
		if writ.AsError(err).Retryable() {
			err = nil
		}
		return before, err
	}
	text := "no call is open on " + n.Name
	for _, d := range queues.Items {
		if d.Error != nil {
			return before, nil
		}
		for _, q := range d.Queues {
			if q.Node == n.ID {
				text = openText(q, n.Name)
			}
		}
	}
	if text != before {
		env.Note("%s", text)
	}
	return text, nil
}

// openText formats the number of calls on a node.
func openText(q writ.QueueDepth, node string) string {
	var parts []string
	for _, part := range []struct {
		n    int
		what string
	}{{q.Running, "running"}, {q.Queued, "queued"}, {q.Planned, "planned"}} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	if len(parts) == 0 {
		return "no call is open on " + node
	}
	return fmt.Sprintf("open calls on %s: %s", node, strings.Join(parts, ", "))
}

// drainEvery is the poll interval of awaitDrained. Calls take seconds to hours.
const drainEvery = 2 * time.Second

// awaitDrained waits until the supervisor of a node has signed that the node is drained.
func awaitDrained(
	ctx context.Context, env *cli.Env, c *client.Client, roster *identity.Roster, n writ.Node, timeout time.Duration,
) error {
	again := fmt.Sprintf("node %s continues to drain; to wait again: writ node drain %s --wait", n.Name, n.Name)
	waiting, stop := ctx, context.CancelFunc(func() {})
	if timeout > 0 {
		waiting, stop = context.WithTimeout(ctx, timeout)
	}
	defer stop()
	for open := ""; ; {
		drained, err := isDrained(waiting, c, roster, n)
		if err == nil && !drained {
			open, err = noteOpen(waiting, env, c, n, open)
		}
		switch {
		case ctx.Err() != nil:
			return terminal.Interrupted(again)
		case errors.Is(waiting.Err(), context.DeadlineExceeded):
			return writ.Errorf(writ.CodeTimeout, "node %s is not drained after %s", n.Name, timeout).WithHint("%s", again)
		case err != nil && !writ.AsError(err).Retryable():
			return err
		case drained:
			env.Done("node %s is drained", n.Name)
			env.Note("verified: signed by the supervisor")
			return nil
		}
		_ = sleep.For(waiting, drainEvery) // the next round reports the end of waiting
	}
}

// isDraining reports whether the supervisor of a node has signed that the node is draining or drained.
func isDraining(ctx context.Context, c *client.Client, roster *identity.Roster, n writ.Node) bool {
	_, err := isDrained(ctx, c, roster, n)
	return err == nil
}

// isDrained reports whether the supervisor of a node has signed that the node is drained. It returns an error if the
// node is not draining. Several nodes can wait for admission under one name, so the error for a waiting node names its
// key.
func isDrained(ctx context.Context, c *client.Client, roster *identity.Roster, n writ.Node) (bool, error) {
	stands, err := c.Nodes.Standing(ctx, roster, n)
	switch {
	case err != nil:
		return false, err
	case stands.Admission == writ.AdmissionRemoved:
		return false, writ.Errorf(writ.CodeNotFound, "node %s was removed", n.Name).
			WithHint("`writ node show %s` shows the decision and its reason", n.Name)
	case stands.Admission != writ.AdmissionApproved:
		return false, writ.Errorf(writ.CodeConflict, "node %s with the key %s is %s and has no work", n.Name, n.Key,
			stands.Admission).
			WithHint("`writ node list` shows the nodes of this name")
	case stands.Scheduling == writ.SchedulingDrained || stands.Scheduling == writ.SchedulingDraining:
		return stands.Scheduling == writ.SchedulingDrained, nil
	}
	return false, writ.Errorf(writ.CodeConflict, "node %s is %s and no longer draining", n.Name, stands.Scheduling).
		WithHint("`writ node show %s` shows the decision and its reason", n.Name)
}

package why

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/terminal"
	"writ/coord/api"
	"writ/coord/remedy"
	"writ/identity"
)

// Reason is the cause of a state, with the command to type next.
type Reason struct {
	Why   string         `json:"why"`
	First string         `json:"first,omitempty"` // the step without which Next fails again, "" if unknown
	Next  remedy.Command `json:"next,omitzero"`

	named bool // Why contains Next
}

// Next commands that do not need the name of a node or datacenter.
var (
	listDatacenters = remedy.List(remedy.ListDatacenters)
	listNodes       = remedy.List(remedy.ListNodes)
)

// AwayText is the reason text for a disconnected datacenter.
var AwayText = writ.Reason{Code: writ.ReasonAway}.String()

// RunReasons holds the reasons of a run and of its open calls.
type RunReasons struct {
	Run   writ.RunID   `json:"run"`
	State api.RunState `json:"state"`
	Reason
	Decided  []writ.Decision `json:"decided,omitempty"` // decisions about the run, as reported by the coordinator
	Deadline time.Time       `json:"deadline,omitzero"`
	Calls    []callReasons   `json:"calls,omitempty"`
	Does     string          `json:"does,omitempty"`  // the effect of the command, if a person must decide about it
	Again    []Loss          `json:"again,omitempty"` // losses of the lost nodes of its calls

	excerpt string // source line at which the script failed
}

// callReasons are the reasons of a call that has not ended.
type callReasons struct {
	Seq   int            `json:"seq"`
	Title string         `json:"title"` // "volume.create web-0"
	State writ.CallState `json:"state"`
	Reason
	Does string `json:"does,omitempty"` // the effect of the command, if a person must decide about it
}

// SituationOf requests a run and its surroundings from the coordinator. If a request fails, it returns the error with
// the answers so far, or with nil if the run is missing. Queue depths are missing while the datacenter does not answer.
// Nodes and queues are missing if the reader may not read all projects.
func SituationOf(ctx context.Context, c *client.Client, id writ.RunID) (*Situation, error) {
	s := &Situation{nodes: make(map[writ.NodeID]writ.Node), queues: make(map[writ.NodeID]writ.QueueDepth), now: time.Now()}
	var err error
	if s.Run, err = c.Runs.Get(ctx, id); err != nil {
		return nil, err
	}
	datacenters, err := api.Answer[api.DatacenterList](c.API.ListDatacenters(ctx))
	if err != nil {
		return s, err
	}
	for _, d := range datacenters.Items {
		if d.ID == s.Run.Datacenter {
			s.datacenter = d
		}
	}
	if s.Run.State.Ended() && s.Run.State != api.RunStateSucceeded {
		if s.payload, err = payloadOf(ctx, c, s.Run); err != nil {
			return s, err
		}
	}
	if s.Run.Accepted.IsZero() { // no datacenter has accepted it
		return s, nil
	}
	if s.Calls, err = c.Runs.Calls(ctx, id); err != nil {
		return s, err
	}
	if s.Run.State.Ended() && !slices.ContainsFunc(s.Calls, endedByLoss) {
		return s, nil
	}
	err = s.askNodes(ctx, c)
	if err != nil || s.Run.State.Ended() || !s.datacenter.IsConnected() {
		return s, err
	}
	queues, err := api.Answer[api.QueueList](c.API.ListQueues(ctx,
		&api.ListQueuesParams{Datacenter: api.Given(string(s.Run.Datacenter))}))
	for _, d := range queues.Items {
		for _, q := range d.Queues {
			s.queues[q.Node] = q
		}
	}
	if err != nil && !writ.AsError(err).Retryable() && writ.CodeOf(err) != writ.CodeRoleMissing {
		return s, err
	}
	return s, nil
}

// payloadOf returns the signed payload of a run, nil if the coordinator does not have it. A coordinator that got the
// run by events has no payload, and older coordinators do not return payloads.
func payloadOf(ctx context.Context, c *client.Client, run api.Run) (*identity.Payload, error) {
	payload, err := c.Runs.Payload(ctx, run)
	if code := writ.CodeOf(err); err != nil && (code == writ.CodeNotFound || code == writ.CodeMethodNotAllowed) {
		return nil, nil
	}
	return payload, err
}

// AskLosses adds the losses of each node that was declared lost and made a call of the run fail.
func (s *Situation) AskLosses(ctx context.Context, c *client.Client) error {
	for _, id := range s.goneNodes() {
		losses, err := LossFinder{c, s.nodes[id], s.datacenter.Name}.past(ctx)
		if err != nil {
			return err
		}
		s.losses = append(s.losses, losses...)
	}
	return nil
}

// goneNodes returns the nodes that were declared lost and made calls of the run fail, in the order of the calls.
func (s *Situation) goneNodes() (gone []writ.NodeID) {
	for _, c := range s.Calls {
		if n := s.lostNode(c); n.Gone && !slices.Contains(gone, n.ID) {
			gone = append(gone, n.ID)
		}
	}
	return gone
}

// askNodes asks for the nodes of the run's datacenter. Removed nodes are on a separate list, which it requests only if
// a call needs it.
func (s *Situation) askNodes(ctx context.Context, c *client.Client) error {
	for _, admission := range []*writ.Admission{nil, new(writ.AdmissionRemoved)} {
		if admission != nil &&
			!slices.ContainsFunc(s.Calls,
				func(c writ.Call) bool { return s.nodes[c.Node].ID == "" && (c.Node != "" || endedByLoss(c)) }) {
			return nil
		}
		nodes, err := c.Nodes.ListIfAllowed(ctx,
			api.ListNodesParams{Datacenter: api.Given(string(s.Run.Datacenter)), Admission: admission})
		if err != nil {
			return err
		}
		for _, n := range nodes {
			s.nodes[n.ID] = n
		}
	}
	return nil
}

// endedByLoss reports whether a call failed because its node was lost.
func endedByLoss(c writ.Call) bool { return c.Error != nil && c.Error.Code == writ.CodeNodeLost }

// Text returns the reasons for the screen.
func (r RunReasons) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "run %s %s: %s\n", r.Run, cli.StateClause(writ.RunState(r.State)), terminal.Clean(r.Why))
	if r.excerpt != "" {
		fmt.Fprintf(&b, "    %s\n", strings.ReplaceAll(terminal.CleanLines(r.excerpt), "\n", "\n    "))
	}
	for _, d := range r.Decided {
		fmt.Fprintf(&b, "  decided: %s\n", cli.DecisionText(d))
	}
	for _, group := range groupCalls(r.Calls) {
		c := group[0]
		fmt.Fprintf(&b, "  call %d, %s, is %s: %s\n", c.Seq, c.Title, c.State, terminal.Clean(c.Why))
		if more := len(group) - 1; more > 0 {
			fmt.Fprintf(&b, "    and %s: %s\n", cli.Count(more, "more call"), callNumbers(group[1:]))
		}
		if !c.Next.IsZero() && c.Next != r.Next {
			writeNext(&b, "    ", c.Next.First(), c.Next.Line, c.Does)
		}
	}
	for _, l := range r.Again {
		fmt.Fprintf(&b, "  lost with %s: %s\n", terminal.Clean(l.Node), terminal.Clean(l.String()))
	}
	switch {
	case r.First != "":
		fmt.Fprintf(&b, "first: %s\nthen: %s\n", terminal.Clean(r.First), terminal.Clean(r.Next.Line))
	case !r.Next.IsZero():
		writeNext(&b, "", r.Next.First(), r.Next.Line, r.Does)
	}
	return b.String()
}

// writeNext writes the command to type next, and its effect unless `does` is empty. If `first` is not empty, it is the
// step to try before the command.
func writeNext(b *strings.Builder, indent, first, command, does string) {
	if first != "" {
		fmt.Fprintf(b, "%sfirst: %s\n", indent, first)
	}
	fmt.Fprintf(b, "%snext: %s\n", indent, terminal.Clean(command))
	if does != "" {
		fmt.Fprintf(b, "%s  %s\n", indent, does)
	}
}

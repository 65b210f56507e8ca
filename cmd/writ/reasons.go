package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/terminal"
	"writ/coord/api"
	"writ/coord/reasons"
	"writ/identity"
)

// situation is what a coordinator knows of a run at a moment, and of what the run depends on.
type situation struct {
	run        api.Run
	calls      []writ.Call // by seq
	datacenter api.Datacenter
	nodes      map[writ.NodeID]writ.Node
	queues     map[writ.NodeID]writ.QueueDepth
	now        time.Time
	payload    *identity.Payload // what was signed, nil if nobody has it
}

// reason says why something is as it is, and what to type next.
type reason struct {
	Why  string `json:"why"`
	Next string `json:"next,omitempty"` // a command, "" if there is nothing to do
}

// runReasons are the reasons of a run and of its open calls.
type runReasons struct {
	Run   writ.RunID   `json:"run"`
	State api.RunState `json:"state"`
	reason
	Decided  []writ.Decision `json:"decided,omitempty"` // about the run, as the coordinator heard of it
	Deadline time.Time       `json:"deadline,omitzero"`
	Calls    []callReasons   `json:"calls,omitempty"`

	excerpt string // the line at which the script failed
}

// callReasons are the reasons of a call that has not ended.
type callReasons struct {
	Seq   int            `json:"seq"`
	Title string         `json:"title"` // "volume.create web-0"
	State writ.CallState `json:"state"`
	reason
}

func (a *app) runExplainCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "explain RUN",
		Short:   "Explain why a run waits or failed, and what to type next",
		Example: "  writ run explain RUN",
		Args:    exactly("RUN"),
		RunE: a.onRun(func(ctx context.Context, c *client.Client, id writ.RunID) error {
			s, err := situationOf(ctx, c, id)
			if err != nil {
				return err
			}
			if s.run.State.Ended() { // why it ended is explained only if its datacenter says so
				roster, err := c.Roster(ctx)
				if err != nil {
					return err
				}
				end, err := verifyEnd(ctx, c, roster, &s.run)
				if err != nil {
					return err
				}
				a.noteUnsure(end)
				if !s.run.State.Ended() { // it was resumed meanwhile
					if s, err = situationOf(ctx, c, id); err != nil {
						return err
					}
				}
			}
			r := s.explain()
			return a.Print(terminal.View{Data: r, Names: []string{string(id)}, Text: func(bool) string { return r.text() }})
		}),
	}
}

// situationOf asks the coordinator. Depths of queues come from the datacenter, and are left out while it does not answer.
func situationOf(ctx context.Context, c *client.Client, id writ.RunID) (*situation, error) {
	s := &situation{nodes: make(map[writ.NodeID]writ.Node), queues: make(map[writ.NodeID]writ.QueueDepth), now: time.Now()}
	var err error
	if s.run, err = c.Run(ctx, id); err != nil {
		return nil, err
	}
	datacenters, err := api.Answer[api.DatacenterList](c.API.ListDatacenters(ctx))
	if err != nil {
		return nil, err
	}
	for _, d := range datacenters.Items {
		if d.ID == s.run.Datacenter {
			s.datacenter = d
		}
	}
	if s.run.State.Ended() && s.run.State != api.RunStateSucceeded {
		s.payload, err = c.Payload(ctx, s.run)
		if code := writ.CodeOf(err); err != nil && code != writ.CodeNotFound && code != writ.CodeMethodNotAllowed { // one that heard of it by events has none, an older one no such page
			return nil, err
		}
	}
	if s.run.Accepted.IsZero() { // no datacenter has it
		return s, nil
	}
	if s.calls, err = c.Calls(ctx, id); err != nil {
		return s, err
	}
	lost := slices.ContainsFunc(s.calls, func(c writ.Call) bool { return c.Error != nil && c.Error.Code == writ.CodeNodeLost })
	if s.run.State.Ended() && !lost {
		return s, nil
	}
	nodes, err := c.Nodes(ctx, api.ListNodesParams{Datacenter: api.Given(string(s.run.Datacenter))})
	for _, n := range nodes {
		s.nodes[n.ID] = n
	}
	if err != nil || s.run.State.Ended() || s.datacenter.Health != api.DatacenterHealthHealthy {
		return s, err
	}
	queues, err := api.Answer[api.QueueList](c.API.ListQueues(ctx, &api.ListQueuesParams{Datacenter: api.Given(string(s.run.Datacenter))}))
	for _, d := range queues.Items {
		for _, q := range d.Queues {
			s.queues[q.Node] = q
		}
	}
	if err != nil && !writ.AsError(err).Retryable() {
		return nil, err
	}
	return s, nil
}

func (s *situation) explain() runReasons {
	r := runReasons{Run: s.run.ID, State: s.run.State, reason: s.whyRun(), Decided: s.run.Decided}
	if s.run.State.Ended() {
		if f := s.run.Failure; f != nil {
			r.excerpt = bundleOf(s.payload).Excerpt(f.Position)
		}
		return r
	}
	r.Deadline = s.run.Deadline
	for _, c := range s.calls {
		if !c.State.Ended() {
			r.Calls = append(r.Calls, callReasons{Seq: c.Seq, Title: titleOf(c), State: c.State, reason: s.whyCall(c)})
		}
	}
	return r
}

// whyRun is why the run is where it is.
func (s *situation) whyRun() reason {
	run := s.run
	switch {
	case run.State == api.RunStateSucceeded:
		return reason{"it has ended well", "writ run show " + string(run.ID)}
	case run.State == api.RunStateFailed:
		return s.whyFailed()
	case run.State.Ended(): // cancelled, refused, expired
		next := s.submitAgain()
		if s.isOutdated() {
			next = s.planAgain()
		}
		return reason{said(run.Failure, run.Reason, "it is "+string(run.State)) + s.unknownText(), next}
	case run.Accepted.IsZero():
		why := run.Reason
		if why == "" {
			why = fmt.Sprintf("it waits for its datacenter %s to connect", s.datacenter.Name)
		}
		return reason{why, "writ dc list"}
	case s.datacenter.Health != api.DatacenterHealthHealthy:
		return reason{fmt.Sprintf("its datacenter %s is away: what it does goes on there, and this is what it said last", s.datacenter.Name), "writ dc list"}
	case s.datacenter.Fault != "":
		return reason{fmt.Sprintf("its datacenter %s cannot go on: %s", s.datacenter.Name, s.datacenter.Fault), "writ dc list"}
	}
	return reason{s.whyOpen() + s.loopText() + s.hurry(), s.nextOf(run.Reason, "writ run watch "+string(run.ID))}
}

// isOutdated reports whether the run was refused because its deployment has another revision than the one that it was signed against.
func (s *situation) isOutdated() bool {
	return s.run.State == api.RunStateRefused && s.run.Deployment != "" && s.run.Failure != nil && s.run.Failure.Code == writ.CodeConflict
}

// unknownText says what a person has to add to the advice, if the coordinator does not have the text that was signed: it keeps none of a refused run.
func (s *situation) unknownText() string {
	if s.payload != nil {
		return ""
	}
	return "; the coordinator does not have what was signed: give -p, --destructive and @REVISION of --deployment again if you gave them before"
}

// submitAgain is the command that hands in the run's script as it was handed in before: in the same place, with the same parameters. Values of
// secrets are none of them. A run that was accepted made a revision of its deployment, and the script follows the newest one then.
func (s *situation) submitAgain() string {
	deployment := s.run.Deployment
	if s.payload != nil && deployment != "" && s.run.Accepted.IsZero() {
		deployment += "@" + strconv.Itoa(s.payload.Deployment.Base)
	}
	words := s.scriptAgain("submit", deployment)
	if s.payload != nil && len(s.payload.Targets) > 0 {
		words = append(words, "--destructive="+strings.Join(s.payload.Targets, ","))
	}
	return shellLine(words)
}

// planAgain is the command that shows what the run's script would change now.
func (s *situation) planAgain() string {
	return shellLine(s.scriptAgain("plan", s.run.Deployment))
}

// scriptAgain are the words of a command about the run's script, in the same place, with the same parameters.
func (s *situation) scriptAgain(command, deployment string) []string {
	words := []string{"writ", command, s.run.Script, "--project", s.run.ProjectName}
	if s.datacenter.Name != "" {
		words = append(words, "--dc", s.datacenter.Name)
	}
	if deployment != "" {
		words = append(words, "--deployment", deployment)
	}
	if s.payload != nil {
		for _, name := range slices.Sorted(maps.Keys(s.payload.Params)) {
			words = append(words, "-p", name+"="+paramText(s.payload.Params[name]))
		}
	}
	return words
}

// shellLine is a command as a shell takes it.
func shellLine(words []string) string {
	for i, w := range words {
		words[i] = shellWord(w)
	}
	return strings.Join(words, " ")
}

// paramText is how a parameter is given on the command line.
func paramText(v any) string {
	if list, ok := v.([]any); ok {
		text, err := json.Marshal(list)
		if err == nil {
			return string(text)
		}
	}
	return fmt.Sprint(v)
}

// whyOpen is what a run of a datacenter that can be asked waits for.
func (s *situation) whyOpen() string {
	var open []string
	for _, c := range s.calls {
		if !c.State.Ended() {
			open = append(open, describeCall(c))
		}
	}
	const most = 3
	switch {
	case s.run.Reason != "":
		return s.run.Reason
	case len(open) == 0:
		return "its script is evaluated next"
	case len(open) > most:
		return fmt.Sprintf("it waits for %d of its %s: %s and others", len(open), count(len(s.calls), "call"), strings.Join(open[:most], ", "))
	}
	return fmt.Sprintf("it waits for %d of its %s: %s", len(open), count(len(s.calls), "call"), strings.Join(open, ", "))
}

// soon is how near a deadline must be to be spoken of.
const soon = 5 * time.Minute

// hurry speaks of a deadline that is near.
func (s *situation) hurry() string {
	left := s.run.Deadline.Sub(s.now)
	if s.run.Deadline.IsZero() || left > soon {
		return ""
	}
	return fmt.Sprintf("; its deadline is in %s", shortDuration(max(left, 0)))
}

// whyFailed follows the failure of the run to the call that failed by itself.
func (s *situation) whyFailed() reason {
	run := s.run
	why := said(run.Failure, run.Reason, "it failed")
	next, again := "writ run resume "+string(run.ID), false
	switch f := run.Failure; {
	case f == nil:
	case f.Seq > 0 && f.Seq <= len(s.calls):
		why = s.chain(s.calls[f.Seq-1])
		cause, _ := s.cause(s.calls[f.Seq-1])
		n := s.nodes[cause.Node]
		switch {
		case s.isSplit(s.calls[f.Seq-1]), cause.Error != nil && endsTheSameWay(cause.Error.Code):
			next = "writ check " + shellWord(run.Script) // the script has to be edited first
		case cause.Error != nil && cause.Error.Code == writ.CodeNodeLost && n.Admission == writ.AdmissionRemoved && !n.Gone:
			next = "writ node lost " + shellWord(cause.NodeName) // before that nobody knows what it still runs
		}
	case f.Code == writ.CodeScriptLimit: // a plan meets the same limit before any call is made
		next, again = s.planAgain(), true
	case endsTheSameWay(f.Code):
		next = "writ check " + shellWord(run.Script)
	case !resumeHelps(f.Code):
		next, again = s.submitAgain(), true
	}
	if run.Failure != nil && run.Failure.Position != "" {
		why += ", at " + run.Failure.Position
	}
	if run.Failure != nil && run.Failure.Hint != "" {
		why += "; " + run.Failure.Hint
	}
	if !s.now.Before(run.Deadline) {
		next, again = s.submitAgain(), true
	}
	if again {
		why += s.unknownText()
	}
	return reason{why, next}
}

// isSplit reports whether a call failed because its run had placed what it needs before it asked for the call.
func (s *situation) isSplit(c writ.Call) bool {
	nodes := make(map[writ.NodeID]bool)
	for _, seq := range c.After {
		if seq > len(s.calls) {
			continue
		}
		if need := s.calls[seq-1]; need.State == writ.CallSucceeded && need.Change == writ.ChangeCreated && need.Kind != writ.KindHeroDB {
			nodes[need.Node] = true
		}
	}
	switch {
	case c.Error == nil:
		return false
	case c.Error.Code == writ.CodeResourceConflict:
		return len(nodes) > 1
	}
	return c.Error.Code == writ.CodeNoCapacity && len(nodes) > 0
}

// cause follows a failed call to the one that failed by itself, and returns those on the way.
func (s *situation) cause(c writ.Call) (cause writ.Call, way []writ.Call) {
	for c.Error != nil && c.Error.Code == writ.CodeDependencyFailed {
		i := slices.IndexFunc(c.After, func(seq int) bool { return seq <= len(s.calls) && s.calls[seq-1].Error != nil })
		if i < 0 {
			break
		}
		way = append(way, c)
		c = s.calls[c.After[i]-1]
	}
	return c, way
}

// chain tells the way from a failed call to the one that failed by itself.
func (s *situation) chain(failed writ.Call) string {
	c, way := s.cause(failed)
	text := ""
	for _, needs := range way {
		text += describeCall(needs) + " needs "
	}
	text += describeCall(c)
	if len(way) > 0 {
		text += ", which"
	}
	if c.Error == nil {
		return text + " failed"
	}
	return fmt.Sprintf("%s failed: %s: %s", text, c.Error.Code, c.Error.Message)
}

// whyCall is why an open call is where it is.
func (s *situation) whyCall(c writ.Call) reason {
	node := c.NodeName
	away := s.whyAway(c.Node)
	depth, known := s.queues[c.Node]
	progress := func(after string) string { // what its node said last of a call that it works on
		if c.Reason == "" {
			return ""
		}
		return after + c.Reason
	}
	switch {
	case c.State == writ.CallPlanned && away != "": // what was said of it before may be long over: nothing is sent there now
		why := fmt.Sprintf("%s, where it goes, %s", node, away)
		if c.Error != nil {
			why += fmt.Sprintf("; its last attempt ended with %s: %s", c.Error.Code, c.Error.Message)
		}
		return reason{why, "writ node list"}
	case c.Reason != "" && c.State != writ.CallRunning:
		return reason{c.Reason, s.nextOf(c.Reason, "")}
	case c.State == writ.CallRunning && away != "":
		return reason{fmt.Sprintf("%s, which works on it, %s%s", node, away, progress("; ")), "writ node list"}
	case c.State.Sent() && s.stuck(c) != nil:
		w := s.stuck(c)
		return reason{fmt.Sprintf("on %s the driver of %s in call %d of run %s ignores since %s that its time is over, and holds what this call is about", node, w.Operation,
			w.Seq, w.Run, clock(w.Since)), "writ node show " + node}
	case c.State == writ.CallRunning:
		return reason{fmt.Sprintf("%s has worked on it for %s, in attempt %d%s", node, shortDuration(s.now.Sub(c.Started)), c.Attempt, progress(": ")), ""}
	case c.State == writ.CallQueued && away != "":
		return reason{fmt.Sprintf("it was sent to %s, which %s", node, away), "writ node list"}
	case c.State == writ.CallQueued && known:
		return reason{fmt.Sprintf("it was sent to %s, which works on %s and has %d more before it or with it", node, count(depth.Running, "call"), max(depth.Queued-1, 0)), ""}
	case c.State == writ.CallQueued:
		return reason{"it was sent to " + node, ""}
	}
	for _, seq := range c.After {
		if seq <= len(s.calls) && !s.calls[seq-1].State.Ended() {
			return reason{fmt.Sprintf("it needs %s, which is %s", describeCall(s.calls[seq-1]), s.calls[seq-1].State), ""}
		}
	}
	switch {
	case c.Node == "":
		return reason{"it gets its node in the next step of the run", ""}
	case known:
		return reason{fmt.Sprintf("it waits for a slot of %s: %d calls are there already, %s for capacity", node, depth.Queued+depth.Running, waits(depth.Planned)), "writ node list"}
	default:
		return reason{fmt.Sprintf("it waits for a slot of %s, or for an earlier call on the same resource", node), "writ node list"}
	}
}

// stuck returns the job that holds the resource of a call although its time is over, nil if there is none.
func (s *situation) stuck(c writ.Call) *writ.Stuck {
	for _, w := range s.nodes[c.Node].Stuck {
		kind, _, _ := strings.Cut(w.Operation, ".")
		if c.Kind != "" && string(c.Kind) == kind && w.Name == c.Name && w.Project == s.run.Project && (w.Run != c.Run || w.Seq != c.Seq) {
			return &w
		}
	}
	return nil
}

// whyAway says what keeps a node from working, "" if nothing is known to.
func (s *situation) whyAway(id writ.NodeID) string {
	n, known := s.nodes[id]
	switch {
	case !known || n.Liveness == writ.LivenessReady && n.Fault == "":
		return ""
	case n.Liveness != writ.LivenessReady:
		return fmt.Sprintf("is %s since %s", n.Liveness, clock(n.LastBeat))
	default:
		return "takes no work: " + n.Fault
	}
}

// nextOf is the command about what a reason names: a hold, another run, a node; otherwise it is other.
func (s *situation) nextOf(why, other string) string {
	return cmp.Or(reasons.Next(why, s.run.ID, s.datacenter.Name), other)
}

func said(f *writ.Failure, texts ...string) string {
	if f != nil {
		return fmt.Sprintf("%s: %s", f.Code, f.Message)
	}
	return texts[slices.IndexFunc(texts, func(t string) bool { return t != "" })]
}

func waits(n int) string {
	if n == 1 {
		return "1 waits"
	}
	return fmt.Sprintf("%d wait", n)
}

// titleOf names a call: "volume.create web-0".
func titleOf(c writ.Call) string {
	return strings.TrimSuffix(c.Operation+" "+c.Name, " ")
}

// describeCall names a call with its number.
func describeCall(c writ.Call) string { return fmt.Sprintf("call %d (%s)", c.Seq, titleOf(c)) }

func (r runReasons) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "run %s is %s: %s\n", r.Run, r.State, terminal.Clean(r.Why))
	if r.excerpt != "" {
		fmt.Fprintf(&b, "    %s\n", strings.ReplaceAll(terminal.CleanLines(r.excerpt), "\n", "\n    "))
	}
	for _, d := range r.Decided {
		fmt.Fprintf(&b, "  decided: %s\n", decisionText(d))
	}
	for _, group := range groupCalls(r.Calls) {
		c := group[0]
		fmt.Fprintf(&b, "  call %d, %s, is %s: %s\n", c.Seq, c.Title, c.State, terminal.Clean(c.Why))
		if more := len(group) - 1; more > 0 {
			fmt.Fprintf(&b, "    and %s: %s\n", count(more, "more call"), callNumbers(group[1:]))
		}
		if c.Next != "" && c.Next != r.Next {
			fmt.Fprintf(&b, "    next: %s\n", c.Next)
		}
	}
	if r.Next != "" {
		fmt.Fprintf(&b, "next: %s\n", terminal.Clean(r.Next))
	}
	return b.String()
}

package why

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/coord/api"
	"writ/coord/remedy"
	"writ/identity"
)

// Situation is a snapshot of a run and its dependencies, as known to a coordinator.
type Situation struct {
	Run        api.Run
	Calls      []writ.Call // by seq
	datacenter api.Datacenter
	nodes      map[writ.NodeID]writ.Node
	queues     map[writ.NodeID]writ.QueueDepth
	now        time.Time
	payload    *identity.Payload // signed payload, nil if the coordinator does not have it
	losses     []Loss            // losses of the lost nodes of its calls
}

// Explain returns the reasons of the run and of its open calls.
func (s *Situation) Explain() RunReasons {
	r := RunReasons{Run: s.Run.ID, State: s.Run.State, Reason: s.whyRun(), Decided: s.Run.Decided, Again: s.losses}
	r.Does = r.Next.Effect()
	if s.Run.State.Ended() {
		if f := s.Run.Failure; f != nil {
			r.excerpt = BundleOf(s.payload).Excerpt(f.Position)
		}
		return r
	}
	r.Deadline = s.Run.Deadline
	for _, c := range s.Calls {
		if !c.State.Ended() {
			why := s.whyCall(c)
			if c.State == writ.CallRunning && why.Next.IsZero() && s.datacenter.IsConnected() {
				why.Next = remedy.Run(remedy.CancelRun, s.Run.ID)
			}
			r.Calls = append(r.Calls,
				callReasons{Seq: c.Seq, Title: titleOf(c), State: c.State, Reason: why, Does: why.Next.Effect()})
		}
	}
	return r
}

// whyRun explains the state of the run.
func (s *Situation) whyRun() Reason {
	run := s.Run
	switch {
	case run.State == api.RunStateSucceeded:
		return Reason{
			Why: "its script and all its calls have ended", Next: remedy.Command{Line: "writ run show " + string(run.ID)},
		}
	case run.State == api.RunStateFailed:
		return s.whyFailed()
	case run.State.Ended(): // cancelled, refused, expired
		next := s.again().submit()
		switch {
		case isOutdated(run):
			next = s.again().plan()
		case run.Failure != nil && run.Failure.Code == writ.CodeSignerRevoked: // a thief may have signed the script
			next = "writ run show " + string(run.ID)
		}
		return Reason{
			Why:  said(run.Failure, run.Reason, "it is "+string(run.State)) + s.again().unknown(),
			Next: remedy.Command{Line: next},
		}
	case run.Accepted.IsZero():
		why := cmp.Or(SentenceOf(run.Why, run.Reason),
			fmt.Sprintf("it waits for its datacenter %s to connect", s.datacenter.Name))
		return Reason{Why: why, Next: listDatacenters}
	case !s.datacenter.IsConnected():
		return Reason{
			Why: fmt.Sprintf("its datacenter %s is away%s: this is the last known state. If its supervisor runs, the run continues "+
				"there; if not, start it on its host: writ supervisor --data DIR", s.datacenter.Name, heardText(s.datacenter)),
			Next: listDatacenters,
		}
	case s.datacenter.Fault != "":
		return Reason{
			Why:  fmt.Sprintf("its datacenter %s cannot continue: %s", s.datacenter.Name, s.datacenter.Fault),
			Next: listDatacenters,
		}
	}
	return s.because(run.Why, s.whyOpen()+loopText(s.Calls)+deadlineText(run.Deadline, s.now),
		watchCommand(run.ID))
}

// heardText formats the time of the last message from a datacenter, for the middle of a sentence.
func heardText(d api.Datacenter) string {
	if d.Heard.IsZero() {
		return ""
	}
	return " since " + cli.Clock(d.Heard)
}

// isOutdated reports whether a run was refused because its deployment has changed since the revision that it was
// signed against.
func isOutdated(run api.Run) bool {
	return run.State == api.RunStateRefused && run.Deployment != "" && run.Failure != nil &&
		run.Failure.Code == writ.CodeConflict
}

// whyOpen explains the state of an open run whose datacenter is connected.
func (s *Situation) whyOpen() string {
	var open []string
	for _, c := range s.Calls {
		if !c.State.Ended() {
			open = append(open, describeCall(c))
		}
	}
	const most = 3
	switch {
	case s.Run.Reason != "":
		return SentenceOf(s.Run.Why, s.Run.Reason)
	case len(open) == 0:
		return "its script is evaluated next"
	case len(open) > most:
		return fmt.Sprintf("it waits for %d of its %s: %s and others", len(open), cli.Count(len(s.Calls), "call"),
			strings.Join(open[:most], ", "))
	}
	return fmt.Sprintf("it waits for %d of its %s: %s", len(open), cli.Count(len(s.Calls), "call"),
		strings.Join(open, ", "))
}

// soon is the remaining time below which a reason mentions the deadline.
const soon = 5 * time.Minute

// deadlineText returns the clause about a deadline that is near, or "".
func deadlineText(deadline, now time.Time) string {
	left := deadline.Sub(now)
	if deadline.IsZero() || left > soon {
		return ""
	}
	return fmt.Sprintf("; its deadline is in %s", cli.ShortDuration(max(left, 0)))
}

// whyCall explains the state of an open call.
func (s *Situation) whyCall(c writ.Call) Reason {
	node := c.NodeName
	away := s.whyAway(c.Node)
	depth, known := s.queues[c.Node]
	progress := func(after string) string { // the last report of the node about a running call
		if c.Reason == "" {
			return ""
		}
		return after + c.Reason
	}
	switch {
	// The last error may be outdated, because no job is sent to the node now.
	case c.State == writ.CallPlanned && away != "":
		why := fmt.Sprintf("its node %s %s", node, away)
		if c.Error != nil {
			why += fmt.Sprintf("; its last attempt ended with %s: %s", c.Error.Code, c.Error.Message)
		}
		return Reason{Why: why, Next: s.nextAway(c)}
	case c.Reason != "" && c.State != writ.CallRunning:
		return s.because(c.Why, SentenceOf(c.Why, c.Reason), remedy.Command{})
	case c.State == writ.CallRunning && away != "":
		return Reason{Why: fmt.Sprintf("its node %s, which runs it, %s%s", node, away, progress("; ")), Next: s.nextAway(c)}
	case c.State.Sent() && s.stuck(c) != nil:
		w := s.stuck(c)
		return Reason{
			Why: fmt.Sprintf("on %s the driver of %s in call %d of run %s has ignored its deadline since %s, and holds the "+
				"resource of this call", node, w.Operation, w.Seq, w.Run, cli.Clock(w.Since)),
			Next: remedy.Node(remedy.ShowNode, node, s.datacenter.Name),
		}
	case c.State == writ.CallRunning:
		return Reason{Why: fmt.Sprintf("%s has worked on it for %s, in attempt %d%s",
			node, cli.ShortDuration(s.now.Sub(c.Started)), c.Attempt, endText(c)+progress(": "))}
	case c.State == writ.CallQueued && away != "":
		return Reason{Why: fmt.Sprintf("it was sent to %s, which %s", node, away), Next: s.nextAway(c)}
	case c.State == writ.CallQueued && known:
		return Reason{Why: fmt.Sprintf("it was sent to %s, which works on %s; %s for a slot there, including this one",
			node, cli.Count(depth.Running, "call"), waits(max(depth.Queued, 1)))}
	case c.State == writ.CallQueued:
		return Reason{Why: "it was sent to " + node}
	}
	for _, seq := range c.After {
		if seq <= len(s.Calls) && !s.Calls[seq-1].State.Ended() {
			return Reason{Why: fmt.Sprintf("it needs %s, which is %s", describeCall(s.Calls[seq-1]), s.Calls[seq-1].State)}
		}
	}
	switch {
	case c.Node == "":
		return Reason{Why: "it gets its node in the next step of the run"}
	case known:
		return Reason{
			Why: fmt.Sprintf("it waits for a slot of %s, which already has %d calls; %s for capacity",
				node, depth.Queued+depth.Running, waits(depth.Planned)),
			Next: listNodes,
		}
	default:
		return Reason{
			Why:  fmt.Sprintf("it waits for a slot of %s, or for an earlier call on the same resource", node),
			Next: listNodes,
		}
	}
}

// endText formats when the timeout of a running call ends its attempt, "" if that is unknown.
func endText(c writ.Call) string {
	if c.EndBy.IsZero() {
		return ""
	}
	return ", which its timeout ends by " + cli.Clock(c.EndBy)
}

// stuck returns the overdue job that holds the resource of a call, or nil.
func (s *Situation) stuck(c writ.Call) *writ.Stuck {
	for _, w := range s.nodes[c.Node].Stuck {
		kind, _, _ := strings.Cut(w.Operation, ".")
		if c.Kind != "" && string(c.Kind) == kind && w.Name == c.Name && w.Project == s.Run.Project &&
			(w.Run != c.Run || w.Seq != c.Seq) {
			return &w
		}
	}
	return nil
}

// again returns the commands that submit or plan the script of the run again.
func (s *Situation) again() resubmit { return resubmit{s.Run, s.datacenter.Name, s.payload} }

// nextAway returns the command for a call whose node cannot work now.
func (s *Situation) nextAway(c writ.Call) remedy.Command {
	return remedy.ForNode(c.NodeName, string(s.nodes[c.Node].Liveness), s.datacenter.Name)
}

// whyAway explains why a node does not work. It returns "" if no reason is known.
func (s *Situation) whyAway(id writ.NodeID) string {
	n, known := s.nodes[id]
	switch {
	case !s.datacenter.IsConnected(): // the state of its nodes is unknown
		return ""
	case !known || n.Liveness == writ.LivenessUnknown || n.Liveness == writ.LivenessReady && n.Fault == "":
		return ""
	case n.Liveness != writ.LivenessReady:
		return cli.Unheard(n)
	default:
		return "takes no work: " + n.Fault
	}
}

// because returns a reason with this sentence. Its next command is the remedy for `why`, or `other` if `why` has no
// remedy.
func (s *Situation) because(why writ.Reason, sentence string, other remedy.Command) Reason {
	r := Reason{Why: sentence, Next: remedy.For(why, s.Run.ID, s.datacenter.Name)}
	if r.Next.IsZero() {
		r.Next = other
	} else {
		r.named = r.Next.Line == why.Command()
	}
	return r
}

// SentenceOf returns the sentence of `why`, with its subject. If `why` is empty, it returns `sentence`: an earlier
// version of the coordinator sends only a sentence.
func SentenceOf(why writ.Reason, sentence string) string { return cmp.Or(why.Sentence(), sentence) }

func said(f *writ.Failure, texts ...string) string {
	if f != nil {
		return fmt.Sprintf("%s: %s", f.Code, f.Message)
	}
	return cmp.Or(texts...)
}

func waits(n int) string {
	if n == 1 {
		return "1 waits"
	}
	return fmt.Sprintf("%d wait", n)
}

// titleOf formats the name of a call: "volume.create web-0".
func titleOf(c writ.Call) string {
	return strings.TrimSuffix(c.Operation+" "+c.Name, " ")
}

// describeCall formats the name of a call with its number.
func describeCall(c writ.Call) string { return fmt.Sprintf("call %d (%s)", c.Seq, titleOf(c)) }

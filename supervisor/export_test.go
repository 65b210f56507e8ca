package supervisor

import (
	"context"
	"encoding/json"
	"time"

	"writ"
	"writ/identity"
	"writ/supervisor/journal"
	"writ/supervisor/link"
	"writ/supervisor/mail"
	"writ/supervisor/watch"
)

// Ask asks the supervisor what a coordinator may ask.
func (s *Supervisor) Ask(ctx context.Context, verb link.Verb, params any) (any, error) {
	text, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	return s.verbs.answer(ctx, verb, text)
}

// Known returns what the supervisor knows of a node, one that waits to be admitted included; nil if it knows none.
func (s *Supervisor) Known(id writ.NodeID) *journal.Node {
	return s.Node(id)
}

// HasStep reports whether a run has a step, waits for one, or could not write its last one.
func (s *Supervisor) HasStep(id writ.RunID) bool { return s.steps.Knows(id) }

// IsAwaited reports whether something else than the journal will wake a run.
func (s *Supervisor) IsAwaited(id writ.RunID) bool {
	return s.steps.Knows(id) || s.outbox.IsUnanswered(id)
}

// SendAgain has a call sent again as whoever recovers does who read it a while ago.
func (s *Supervisor) SendAgain(c *journal.Call) {
	s.steps.Post(c.Run, mail.Mail{Resend: []mail.Delivery{mail.DeliveryOf(c)}})
}

// Miss has the supervisor know that a node works on a call, and its run not: what the node said of it got lost in between.
func (s *Supervisor) Miss(c *journal.Call) {
	b, _ := s.fleet.Presence.Last(c.Node)
	b.Sequence++
	b.Active = []writ.JobKey{c.Key()}
	s.fleet.Presence.Beat(b, s.epoch, s.Now(), time.Now())
}

// Checking lets no other script of a project be checked until done is called.
func (s *Supervisor) Checking(ctx context.Context, project writ.ProjectID) (done func(), err error) {
	return s.submitter.Checks.Slots.Enter(ctx, string(project))
}

// MayNotBegin reports whether a run that was accepted is on hold, or was until a moment ago, so that the watch has not told it yet.
func (s *Supervisor) MayNotBegin(r *journal.Run) bool {
	h := s.holds.Over(identity.Scope{Project: r.Project, Deployment: r.Deployment})
	return r.State == writ.RunAccepted && (h != nil || s.watch.HoldsSeen() != s.holds.Changes())
}

// Links returns the addresses of the coordinators that the supervisor links to.
func (s *Supervisor) Links() []string { return s.links.Addresses() }

// NoWakeUp is the log message about a run that only the watch woke.
const NoWakeUp = watch.NoWakeUp

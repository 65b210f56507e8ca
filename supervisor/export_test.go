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

// Ask sends a request of a coordinator to the supervisor.
func (s *Supervisor) Ask(ctx context.Context, verb link.Verb, params any) (any, error) {
	text, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	return s.verbs.answer(ctx, verb, text)
}

// Known returns the record of a node, also of one that waits for admission. It returns nil for an unknown node.
func (s *Supervisor) Known(id writ.NodeID) *journal.Node {
	return s.Node(id)
}

// HasStep reports whether a run has a step in progress or pending, or failed to write its last step.
func (s *Supervisor) HasStep(id writ.RunID) bool { return s.steps.Knows(id) }

// IsAwaited reports whether an event other than a journal entry will wake a run.
func (s *Supervisor) IsAwaited(id writ.RunID) bool {
	return s.steps.Knows(id) || s.outbox.IsUnanswered(id)
}

// SendAgain requests another delivery of a call, as recovery does with a call that it read earlier.
func (s *Supervisor) SendAgain(c *journal.Call) {
	s.steps.Post(c.Run, mail.Mail{Resend: []mail.Delivery{mail.DeliveryOf(c)}})
}

// Miss makes the supervisor see a node working on a call, while the run did not receive the start message.
func (s *Supervisor) Miss(c *journal.Call) {
	b, _ := s.fleet.Presence.Last(c.Node)
	b.Sequence++
	b.Active = []writ.JobKey{c.Key()}
	s.fleet.Presence.Beat(b, s.epoch, s.Now(), time.Now())
}

// Checking blocks checks of other scripts of a project until done is called.
func (s *Supervisor) Checking(ctx context.Context, project writ.ProjectID) (done func(), err error) {
	return s.submitter.Checks.Slots.Enter(ctx, string(project))
}

// MayNotBegin reports whether an accepted run is on hold, or was until recently so that the watch has not woken it yet.
func (s *Supervisor) MayNotBegin(r *journal.Run) bool {
	h := s.holds.Over(identity.Scope{Project: r.Project, Deployment: r.Deployment})
	return r.State == writ.RunAccepted && (h != nil || s.watch.HoldsSeen() != s.holds.Changes())
}

// Links returns the addresses of the coordinators to which the supervisor is linked.
func (s *Supervisor) Links() []string { return s.links.Addresses() }

// NoWakeUp is the log message about a run that was woken only by the watch.
const NoWakeUp = watch.NoWakeUp

// Trim gives back the memory of runs and programs that were not used since its last call.
func (s *Supervisor) Trim() {
	s.advancer.Trim()
	s.programs.Trim()
}

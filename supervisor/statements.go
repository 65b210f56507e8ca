package supervisor

import (
	"writ/identity"
	"writ/supervisor/admission"
	"writ/supervisor/decision"
	"writ/supervisor/secrets"
)

// statementHandlers returns the handler of each kind of statement, by subject and decision.
func statementHandlers(s *Supervisor) map[string]decision.Handler {
	runs := &decision.Runs{
		Journal: s.Journal, Answers: s.answers, Records: s.records, Programs: s.programs, Verifier: s.rosters.Verifier,
		Post: s.steps.Post, Now: s.Now,
	}
	projectSecrets := &secrets.Decisions{Journal: s.Journal, Answers: s.answers, Keyring: s.keyring}
	nodeBatches := &admission.BatchDecisions{Site: s.admission, Batches: s.batches, Answers: s.answers}
	return map[string]decision.Handler{
		"run cancel": runs.Cancel,
		"run resume": runs.Resume,

		"project " + identity.DecisionCancelRuns: runs.DecideAll,
		"project " + identity.DecisionResumeRuns: runs.DecideAll,

		"token create":                     s.tokens.Create,
		"token " + identity.DecisionRevoke: s.tokens.Revoke,
		"batch create":                     nodeBatches.Create,
		"batch " + identity.DecisionRevoke: nodeBatches.Revoke,

		"datacenter " + identity.DecisionRotate: s.certificates.Rotate,

		"secret set":    projectSecrets.Set,
		"secret remove": projectSecrets.Remove,

		"node approve":  s.nodeDecisions.Decide,
		"node reject":   s.nodeDecisions.Decide,
		"node remove":   s.nodeDecisions.Decide,
		"node lost":     s.nodeDecisions.Decide,
		"node cordon":   s.nodeDecisions.Decide,
		"node uncordon": s.nodeDecisions.Decide,
		"node drain":    s.nodeDecisions.Decide,
		"node label":    s.nodeDecisions.Decide,

		"datacenter hold":    s.holding.Decide,
		"datacenter release": s.holding.Decide,
		"project hold":       s.holding.Decide,
		"project release":    s.holding.Decide,
		"deployment hold":    s.holding.Decide,
		"deployment release": s.holding.Decide,
		"operation hold":     s.holding.Decide,
		"operation release":  s.holding.Decide,
	}
}

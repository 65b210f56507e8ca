package scripts

import "writ"

// Proposed returns the calls of the plan as a datacenter is asked about them.
func (p *Plan) Proposed() []writ.ProposedCall {
	calls := make([]writ.ProposedCall, len(p.Calls))
	for i, c := range p.Calls {
		calls[i] = writ.ProposedCall{Operation: c.Operation, Name: c.Name, Args: c.Args, Options: c.Options, After: c.After, Waits: c.Waits}
	}
	return calls
}

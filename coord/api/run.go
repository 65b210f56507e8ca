package api

import "writ"

// RunOf returns the view of a run in a state. The caller sets Created, which a writ.Run does not have.
func RunOf(r writ.Run, state RunState) Run {
	return Run{
		ID: r.ID, Datacenter: r.Datacenter, Project: r.Project, ProjectName: r.ProjectName, Deployment: r.Deployment,
		Revision: r.Revision, Signer: r.Signer, Script: r.Script, Payload: r.Payload, Plan: r.Plan,
		LogsOnly: r.LogsOnly, State: state,
		Why: ReasonOf(r.Why, r.Reason), Reason: r.Reason, Failure: r.Failure, Decided: r.Decided, Output: r.Output,
		Summary: r.Summary, Accepted: r.Accepted, Started: r.Started, Ended: r.Ended, Deadline: r.Deadline,
	}
}

// ReasonOf returns the reason of a run or call. If only the sentence is set, which an earlier version sent or stored,
// the reason has this sentence as its text.
func ReasonOf(why writ.Reason, sentence string) writ.Reason {
	if why.IsZero() && sentence != "" {
		return writ.Reason{Code: writ.ReasonText, Text: sentence}
	}
	return why
}

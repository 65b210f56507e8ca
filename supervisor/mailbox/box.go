package mailbox

import (
	"slices"

	"writ"
	"writ/supervisor/mail"
)

// box holds the mail of a run that has or awaits a step, or that is stalled.
type box struct {
	line  writ.ProjectID // project of the run; for an unknown run, the line in which it waits
	busy  bool
	mails []mail.Mail
	held  map[resultID]bool // results in mails or in the current step; nil without results
}

// resultID identifies a result. It detects repetitions: a node resends a result until it is acknowledged.
type resultID struct {
	mail.Active
	job writ.Digest
}

func idOf(a *mail.Arrival) resultID {
	return resultID{mail.Active{Key: a.Result.JobKey, Node: a.Node}, a.Result.Job}
}

// maxStepResults limits the results per step. A step is one transaction and delays other writers. Further results are
// applied in the run's next step, after steps of other projects.
const maxStepResults = 250

// portion splits mails into the mails for the next step and the rest. It does not split mail with Done.
func portion(mails []mail.Mail) (now, rest []mail.Mail) {
	results := 0
	for i, m := range mails {
		room := maxStepResults - results
		if results += len(m.Results); results <= maxStepResults {
			continue
		}
		if m.Done != nil || room == 0 {
			at := max(i, 1)
			return mails[:at:at], mails[at:]
		}
		first := mail.Mail{Results: m.Results[:room:room]}
		m.Results = slices.Clone(m.Results[room:]) // the other fields stay with the last results: they may refer to results
		return append(slices.Clone(mails[:i]), first), append([]mail.Mail{m}, mails[i+1:]...)
	}
	return mails, nil
}

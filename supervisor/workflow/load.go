package workflow

import (
	"context"
	"time"

	"writ"
	"writ/supervisor/journal"
	"writ/supervisor/mail"
	"writ/supervisor/mailbox"
)

// load returns the next step of a run, nil if the run is unknown.
func (a *Advancer) load(ctx context.Context, id writ.RunID, m mail.Mail) (t *Step, err error) {
	if t := a.again(id, m); t != nil {
		return t, nil
	}
	err = a.Journal.Read(ctx, func(tx *journal.Tx) error {
		t, err = a.reload(tx, id, m)
		return err
	})
	return t, err
}

// again returns the next step of a run in memory. It returns nil if the run is not in memory, or if the step needs
// facts that only the journal has.
func (a *Advancer) again(id writ.RunID, m mail.Mail) *Step {
	r := a.recent.take(id)
	if r == nil || r.run.State == writ.RunAccepted && r.run.Deployment != "" {
		return nil
	}
	t := NewStep(a.View, r.run, a.Now().UTC().Truncate(time.Microsecond)) // the precision of the journal
	t.calls = r.calls
	t.rebase()
	for i, arrival := range m.Results {
		c := t.call(arrival.Result.Seq)
		if c == nil || !c.LastSent(arrival.Result.Attempt, arrival.Node, arrival.Result.Job) || arrival.Result.Found != "" {
			return nil
		}
		t.genuine[i] = true
	}
	return t
}

// reload reads a run and all facts about its mail from the journal.
func (a *Advancer) reload(tx *journal.Tx, id writ.RunID, m mail.Mail) (*Step, error) {
	run, err := tx.Run(id)
	if err != nil || run == nil {
		return nil, err
	}
	t := NewStep(a.View, run, tx.Now)
	if t.calls, err = tx.Calls(id); err != nil {
		return nil, err
	}
	t.weigh()
	t.rebase()
	if run.State == writ.RunAccepted {
		if t.blocked, err = tx.EarlierRun(run); err != nil {
			return nil, err
		}
	}
	for i, arrival := range m.Results {
		c := t.call(arrival.Result.Seq)
		if c == nil {
			continue
		}
		if t.genuine[i], err = tx.WasSent(c, arrival.Result.Attempt, arrival.Node, arrival.Result.Job); err != nil {
			return nil, err
		}
		if t.left[i], err = (receiver{t}).leftoverOf(tx, arrival); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// remember keeps a run in memory if a result will bring its next step soon. The step is in the journal.
func (a *Advancer) remember(t *Step) {
	if !t.isOut() {
		return
	}
	t.run.Committed()
	for seq := range t.touched {
		t.call(seq).Committed()
	}
	a.recent.put(&recentRun{t.run, t.calls})
}

// Owners returns the projects of runs. Unknown runs are omitted.
func (a *Advancer) Owners(runs []writ.RunID) (map[writ.RunID]writ.ProjectID, error) {
	owners := make(map[writ.RunID]writ.ProjectID)
	var rest []writ.RunID
	for _, id := range runs {
		if project := a.recent.projectOf(id); project != "" {
			owners[id] = project
		} else {
			rest = append(rest, id)
		}
	}
	if len(rest) == 0 {
		return owners, nil
	}
	err := a.Journal.Read(context.Background(), func(tx *journal.Tx) error {
		for _, id := range rest {
			run, err := tx.Run(id)
			if err != nil && writ.CodeOf(err) != writ.CodeRecordForged {
				return err
			}
			switch {
			case err != nil:
				owners[id] = mailbox.Forged
			case run != nil:
				owners[id] = run.Project
			}
		}
		return nil
	})
	return owners, err
}

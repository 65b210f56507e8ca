package live

import (
	"context"
	"errors"

	"writ"
	"writ/coord/api"
	"writ/identity/envelope"
	"writ/ledger"
	"writ/supervisor/link"
)

// Values asks the datacenter of a run for its output, and for the arguments and results of its next max calls after
// number `after`, or of all of them if max is 0. If they are too large for one answer, it returns fewer calls. The
// coordinator does not store these values.
func (v *View) Values(ctx context.Context, id writ.RunID, after, max int) (api.RunValues, error) {
	for {
		values, err := OfRun[link.RunValues](ctx, v, id, link.VerbValues, link.Values{Run: id, After: after, Max: max})
		switch {
		case writ.CodeOf(err) == writ.CodeTooLarge && max > 1:
			max /= 2
			continue
		case err != nil:
			return api.RunValues{}, err
		}
		shown := valuesView(values)
		shown.More = max > 0 && len(shown.Calls) >= max
		return shown, nil
	}
}

// LogLines asks the datacenter of a run for at most max log lines after line `after`. A run that was not accepted has
// no lines. If the lines are too large for one answer, LogLines requests fewer lines at a time. Otherwise a script
// could hide its log with long lines.
func (v *View) LogLines(ctx context.Context, id writ.RunID, after, max int) ([]writ.LogLine, error) {
	run, err := v.Ledger.Run(ctx, id)
	if err != nil {
		return nil, err
	}
	if run.Accepted.IsZero() {
		return []writ.LogLine{}, nil
	}
	lines := []writ.LogLine{}
	for atOnce := max; len(lines) < max; {
		atOnce = min(atOnce, max-len(lines))
		some, err := Ask[[]writ.LogLine](ctx, v, run.Datacenter, link.VerbLogs, link.Logs{Run: id, After: after, Max: atOnce})
		switch {
		case writ.CodeOf(err) == writ.CodeTooLarge && atOnce > 1:
			atOnce /= 2
			continue
		case err != nil:
			return []writ.LogLine{}, err
		}
		lines = append(lines, some...)
		if len(some) < atOnce {
			break
		}
		after = some[len(some)-1].Ordinal
	}
	return lines, nil
}

// Output returns the output of a completed run from the summary that its datacenter signed, or nil without one. It is
// an error if the signature is not from the datacenter. The ledger has no other output of a run.
func (v *View) Output(ctx context.Context, run ledger.Run) (map[string]any, error) {
	if len(run.Summary) == 0 {
		return nil, nil
	}
	roster, err := v.Rosters.Newest(ctx)
	if err != nil {
		return nil, err
	}
	d := roster.Datacenter(run.Datacenter)
	if d == nil {
		return nil, errors.New("the roster does not name its datacenter")
	}
	records, _, err := envelope.Open[writ.Summary](envelope.Summary, run.Summary, envelope.Only(d.SupervisorKey))
	if err != nil {
		return nil, err
	}
	if records[0].Run != run.ID {
		return nil, errors.New("the summary belongs to another run")
	}
	return records[0].Output, nil
}

func valuesView(v link.RunValues) api.RunValues {
	BoundReason(&v.Run.Why, &v.Run.Reason)
	shown := api.RunValues{Run: api.RunOf(v.Run, api.RunState(v.Run.State)), Calls: []api.CallValues{}}
	for _, call := range v.Calls {
		BoundReason(&call.Why, &call.Reason)
		shown.Calls = append(shown.Calls, api.CallValues{Call: call.Call, Args: call.Args, Values: call.Values})
	}
	return shown
}

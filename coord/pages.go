package coord

import (
	"context"
	"errors"

	"writ"
	"writ/coord/api"
	"writ/identity"
	"writ/identity/envelope"
	"writ/ledger"
	"writ/supervisor/link"
)

// Values asks the datacenter of a run for its output, and for the arguments and results of its calls with a number
// above after. The coordinator does not store them.
func (c *Coordinator) Values(ctx context.Context, id writ.RunID, after int) (api.RunValues, error) {
	values, err := ofRun[link.RunValues](ctx, c, id, link.VerbValues, link.Values{Run: id, After: after})
	if err != nil {
		return api.RunValues{}, err
	}
	return valuesView(values), nil
}

// LogLines asks the datacenter of a run for at most max log lines after line `after`. A run that was not accepted has
// no lines. It requests fewer lines at a time if they are too large for one answer: a script must not be able to hide
// its log by writing long lines.
func (c *Coordinator) LogLines(ctx context.Context, id writ.RunID, after, max int) ([]writ.LogLine, error) {
	run, err := c.Ledger.Run(ctx, id)
	if err != nil {
		return nil, err
	}
	if run.Accepted.IsZero() {
		return []writ.LogLine{}, nil
	}
	lines := []writ.LogLine{}
	for atOnce := max; len(lines) < max; {
		atOnce = min(atOnce, max-len(lines))
		some, err := ask[[]writ.LogLine](ctx, c, run.Datacenter, link.VerbLogs, link.Logs{Run: id, After: after, Max: atOnce})
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

// Certificate returns the certificate that signed a submission, nil if it was signed by a plain key.
func (c *Coordinator) Certificate(ctx context.Context, signed []byte) (*identity.Certificate, error) {
	return c.rosters.CertificateOf(ctx, signed)
}

// Output returns the output of a completed run from the summary that its datacenter signed, nil if it has none. It is
// an error if the signature is not from the datacenter. The ledger has no other output of a run.
func (c *Coordinator) Output(ctx context.Context, run ledger.Run) (map[string]any, error) {
	if len(run.Summary) == 0 {
		return nil, nil
	}
	roster, err := c.rosters.Newest(ctx)
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
		return nil, errors.New("the summary is one of another run")
	}
	return records[0].Output, nil
}

package client

import (
	"context"

	"writ"
	"writ/coord/api"
	"writ/scripts"
)

// Limits of the log of a run that a command reads. A datacenter stores at most scripts.MaxLogLines; a coordinator could
// return lines without end.
const (
	maxLogLines = 10 * scripts.MaxLogLines
	maxLogBytes = 2 * maxLogLines * scripts.MaxLogLine
)

// EachLog calls `show` with the log lines that a run has so far, page by page. The datacenter stores them, so they are
// unavailable while it is disconnected. The error is TOO_LARGE if the log is longer than a script can write.
func (c Runs) EachLog(ctx context.Context, id writ.RunID, show func([]writ.LogLine) error) error {
	last, lines, bytes := 0, 0, 0
	for {
		params := &api.ListLogsParams{Limit: api.Given(PageSize), After: api.Given(last)}
		page, err := api.Answer[api.LogPage](c.client.API.ListLogs(ctx, id, params))
		if err != nil {
			return err
		}
		for _, l := range page.Items {
			last, bytes = l.Ordinal, bytes+len(l.Text)
		}
		if lines += len(page.Items); lines > maxLogLines || bytes > maxLogBytes {
			return writ.Errorf(writ.CodeTooLarge, "the coordinator returns more than the %d lines that a script can log",
				scripts.MaxLogLines).
				WithHint("do not trust this coordinator; use another one with --server, and inform its operator")
		}
		if err := show(page.Items); err != nil || len(page.Items) < PageSize {
			return err
		}
	}
}

// Logs works like EachLog, but returns all lines at once.
func (c Runs) Logs(ctx context.Context, id writ.RunID) ([]writ.LogLine, error) {
	all := []writ.LogLine{}
	err := c.EachLog(ctx, id, func(page []writ.LogLine) error {
		all = append(all, page...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

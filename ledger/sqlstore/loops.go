package sqlstore

import (
	"context"
	"fmt"

	"writ"
	"writ/ledger"
)

// lineOf returns a short text that identifies the line of a script and the resource of a call. It is "" if the position
// is unknown.
func lineOf(call writ.Call) string {
	if call.Position == "" {
		return ""
	}
	const length = 16
	return writ.DigestOf(fmt.Appendf(nil, "%s %s %s", call.Operation, call.Name, call.Position)).String()[:length]
}

// repeats is the condition of runs whose newest LoopCalls calls come from one line, each from another pass. It reads only
// the primary key for runs with fewer calls, and LoopCalls rows for others.
var repeats = fmt.Sprintf(`EXISTS (SELECT 1 FROM calls WHERE calls.run = runs.id AND seq >= %[1]d)
AND %[1]d = (SELECT CASE WHEN MIN(line) = MAX(line) AND MIN(line) <> '' THEN COUNT(DISTINCT planned) ELSE 0 END
FROM (SELECT line, planned FROM calls WHERE calls.run = runs.id ORDER BY seq DESC LIMIT %[1]d) AS newest)`, ledger.LoopCalls)

// Repeated returns the calls that runs repeat.
func (s *Store) Repeated(ctx context.Context, runs ...writ.RunID) (map[writ.RunID]writ.Call, error) {
	repeated := map[writ.RunID]writ.Call{}
	if len(runs) == 0 {
		return repeated, nil
	}
	q := selectFrom("SELECT (SELECT body FROM calls WHERE calls.run = runs.id ORDER BY seq DESC LIMIT 1) FROM runs")
	andIn(q, "id", runs)
	q.and(repeats)
	rows, err := s.db.Query(ctx, q.String(), q.args...)
	calls, err := collect(rows, err, body[writ.Call])
	for _, c := range calls {
		repeated[c.Run] = c
	}
	return repeated, err
}

package sqlstore

import (
	"context"
	"fmt"

	"writ"
	"writ/ledger"
)

// lineOf returns a short digest of the script line and the resource of a call, or "" if the position is unknown.
func lineOf(call writ.Call) string {
	if call.Position == "" {
		return ""
	}
	const length = 16
	return writ.DigestOf(fmt.Appendf(nil, "%s %s %s", call.Operation, call.Name, call.Position)).String()[:length]
}

// repeats is the condition for runs whose newest calls (ledger.LoopCalls of them) come from one line of the script,
// each from another pass (evaluation of the script). The calls of one pass have the same time in the column planned.
// The condition reads only the primary key of runs with fewer calls, and LoopCalls rows of other runs.
var repeats = fmt.Sprintf(`EXISTS (SELECT 1 FROM calls WHERE calls.run = runs.id AND seq >= %[1]d)
AND %[1]d = (SELECT CASE WHEN MIN(line) = MAX(line) AND MIN(line) <> '' THEN COUNT(DISTINCT planned) ELSE 0 END
FROM (SELECT line, planned FROM calls WHERE calls.run = runs.id ORDER BY seq DESC LIMIT %[1]d) AS newest)`,
	ledger.LoopCalls)

// Repeated returns the newest call of each run that repeats a call.
func (s *runTable) Repeated(ctx context.Context, runs ...writ.RunID) (map[writ.RunID]writ.Call, error) {
	repeated := map[writ.RunID]writ.Call{}
	if len(runs) == 0 {
		return repeated, nil
	}
	q := selectFrom("SELECT calls.run, calls.seq, calls.body FROM runs JOIN calls ON calls.run = runs.id")
	andIn(q, "id", runs)
	q.and("calls.seq = (SELECT MAX(seq) FROM calls AS own WHERE own.run = runs.id)")
	q.and(repeats)
	rows, err := s.db.Query(ctx, q.String(), q.args...)
	calls, _, err := collectWithin(maxPageBytes, rows, err, callScanner(s.damage)) // calls beyond the limit are omitted
	for _, c := range calls {
		repeated[c.Run] = c
	}
	return repeated, err
}

package runner

import (
	"context"
	"time"

	"writ/identity/envelope"
	"writ/internal/cbor"
	"writ/internal/failpoint"
	"writ/runner/nodelog"
	"writ/supervisor/nodes"
)

const (
	// maxLogAsked limits the pending queries. Further queries are dropped, because a client does not wait long for an
	// answer.
	maxLogAsked = 4
	// resendWarnings is the interval at which the last warnings are sent again: a message may be lost, and the
	// supervisor does not acknowledge messages of this kind.
	resendWarnings = 10 * time.Minute
)

// logAnswers answers the supervisor's queries for lines of the node's log.
type logAnswers struct {
	*base
	stored *nodelog.Log // may be nil
	asked  chan nodes.LogQuery
}

// query decodes a log query of a control message; ok is false if it is missing or invalid.
func (a *logAnswers) query(ctx context.Context, id string, query []byte) (q nodes.LogQuery, ok bool) {
	if len(query) == 0 {
		return q, false
	}
	if err := cbor.Unmarshal(query, &q); err != nil {
		a.drop(ctx, "query for the log", id, err)
		return q, false
	}
	return q, true
}

// ask queues log queries. Queries beyond maxLogAsked are dropped.
func (a *logAnswers) ask(queries []nodes.LogQuery) {
	for _, q := range queries {
		select {
		case a.asked <- q:
		default:
		}
	}
}

// run answers queries for lines of the node's log until ctx ends.
func (a *logAnswers) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case q := <-a.asked:
			report := nodes.LogReport{Query: q.ID, Refused: "the node keeps no log"}
			if a.stored != nil {
				report = a.stored.Read(q)
			}
			// Failures are logged by send; the client asks again.
			_ = a.send(failpoint.At(ctx, failpoint.LogSent), report)
		}
	}
}

// send sends a part of the log.
func (a *logAnswers) send(ctx context.Context, r nodes.LogReport) error {
	r.Node, r.Incarnation, r.Epoch = a.node, a.number, a.epochs.highest()
	return a.link.send(ctx, envelope.Log, &r)
}

// warnings holds the last warnings that were sent.
type warnings struct {
	last  nodes.LogLine
	epoch int64 // epoch of the receiving supervisor
	at    time.Time
	count int64
}

// tellWarnings sends the supervisor the last warnings of the node's log, if they or the supervisor's epoch are new, or
// if a resend is due.
func (k *keeper) tellWarnings(ctx context.Context) {
	if k.logs.stored == nil {
		return
	}
	last := k.logs.stored.Read(nodes.LogQuery{Level: "warn", Lines: nodes.MaxLogWarnings})
	if len(last.Lines) == 0 {
		return
	}
	told, epoch, now := &k.warned, k.epochs.highest(), time.Now()
	newest := last.Lines[len(last.Lines)-1]
	if newest == told.last && epoch == told.epoch && now.Sub(told.at) < resendWarnings {
		return
	}
	last.Count = told.count + 1
	// After a failure, which send logs, the next scan sends the warnings.
	if k.logs.send(failpoint.At(ctx, failpoint.WarningsSent), last) == nil {
		*told = warnings{newest, epoch, now, last.Count}
	}
}

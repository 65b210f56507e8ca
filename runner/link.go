package runner

import (
	"context"
	"fmt"
	"log/slog"

	"writ"
	"writ/identity/envelope"
	"writ/internal/failpoint"
	"writ/runner/member"
	"writ/runner/queue"
)

// link sends the node's messages to its supervisor, through the queue.
type link struct {
	member  *member.Member
	queue   queue.Queue
	log     *slog.Logger
	transit fault // the last error of the queue, while it is unavailable
}

// sendResults sends results as one message with one signature.
func (l *link) sendResults(ctx context.Context, results []*writ.Result) error {
	records := make([]any, len(results))
	for i, r := range results {
		records[i] = r
	}
	return l.send(failpoint.At(ctx, failpoint.ResultsSent), envelope.Result, records...)
}

// send signs records and sends them to the supervisor.
//
//failpoint:none the caller names the message
func (l *link) send(ctx context.Context, kind envelope.Kind, records ...any) error {
	signed, err := envelope.Sign(kind, l.member.PrivateKey(), records...)
	if err != nil {
		return fmt.Errorf("sign %d records: %w", len(records), err)
	}
	err = l.queue.Send(ctx, queue.Stream{Node: l.member.Node(), Direction: queue.Out}, signed)
	l.note(ctx, err)
	return err
}

// note logs when the queue becomes unavailable and when it recovers, not every failure.
func (l *link) note(ctx context.Context, err error) {
	if ctx.Err() != nil || !l.transit.set(err) {
		return
	}
	if err != nil {
		l.log.WarnContext(ctx, LogNoQueue, "err", err)
	} else {
		l.log.InfoContext(ctx, LogQueue)
	}
}

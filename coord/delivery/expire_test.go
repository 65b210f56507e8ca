package delivery

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"writ"
	"writ/internal/broadcast"
	"writ/ledger"
)

// overdue is a ledger with one overdue submission.
type overdue struct {
	ledger.Ledger
	rejected int
}

func (l *overdue) Overdue(context.Context, time.Time, int) ([]writ.Submission, error) {
	return []writ.Submission{{Payload: writ.Digest{1}}}, nil
}

func (l *overdue) Reject(context.Context, writ.Digest, writ.SubmissionState, *writ.Error) error {
	l.rejected++
	return nil
}

// The datacenter decides about a submission that is being delivered.
func TestSubmissionInDeliveryDoesNotExpire(t *testing.T) {
	l := new(overdue)
	s := New(Config{Ledger: l, Log: slog.New(slog.DiscardHandler), News: new(broadcast.Signal), Now: time.Now}, prometheus.NewRegistry())
	release, _ := s.outbox.hold(writ.Digest{1})
	if s.Expire(t.Context()); l.rejected != 0 {
		t.Error("it expired during its delivery")
	}
	release()
	if s.Expire(t.Context()); l.rejected != 1 {
		t.Errorf("it expired %d times after its delivery", l.rejected)
	}
}

func TestLostRunHasNoReason(t *testing.T) {
	t.Parallel()
	waits := writ.Reason{Code: writ.ReasonNode, Node: "n1", State: string(writ.LivenessSilent)}
	run := lost(writ.Run{State: writ.RunRunning, Why: waits, Reason: waits.String()}, writ.Errorf(writ.CodeExpired, "it expired"))
	if !run.Why.IsZero() || run.Reason != "" || run.State != writ.RunFailed {
		t.Errorf("the lost run still waits: %+v", run)
	}
}

package delivery

import (
	"context"
	"time"

	"writ"
	"writ/internal/sleep"
	"writ/ledger"
)

// pageOfUnreported is the number of runs that are read from the ledger at a time.
const pageOfUnreported = 100

// clearUnreported asks the datacenter for every open run that its journal has not reported. Usually no run is
// unreported, or the report is on its way. But a journal that was restored from a backup lacks the runs that were
// accepted after the backup. Such a run is submitted again and starts again under the same id, and nodes do not repeat
// its work. A run that the datacenter no longer accepts is lost; without this check it would be shown as running
// forever.
func (k *courier) clearUnreported(ctx context.Context) {
	var after writ.RunID
	for ctx.Err() == nil {
		unreported, err := k.unreported(ctx, after)
		for i := 0; err == nil && i < len(unreported); i++ {
			if err = k.resubmit(ctx, unreported[i]); err == nil {
				after = unreported[i].ID
			}
		}
		switch {
		case err == nil && len(unreported) == 0:
			return
		case err == nil:
			continue
		case ctx.Err() == nil:
			code := writ.CodeOf(err)
			// The key of the limit contains only the code, because the datacenter controls the error text.
			if times, say := k.Lines.Say("unreported "+string(k.dc)+" "+string(code), time.Now()); say {
				k.log.WarnContext(ctx, "ask the datacenter for unreported runs", "code", code, "err", err, "times", times)
			}
		}
		_ = sleep.For(ctx, retryOne) // the loop ends with ctx
	}
}

// unreported returns the next open runs that the journal of the session has not reported, in the order of their ids.
func (k *courier) unreported(ctx context.Context, after writ.RunID) ([]ledger.Run, error) {
	return k.Ledger.Unreported(ctx, k.dc, k.session.Hello.Journal, after, pageOfUnreported)
}

// resubmit asks for one run by submitting it again.
func (k *courier) resubmit(ctx context.Context, open ledger.Run) error {
	run, err := k.submit(ctx, open.Payload)
	switch {
	case writ.CodeOf(err) == writ.CodeNotFound:
		return nil // another coordinator accepted the submission and resubmits it
	case err == nil && run.ID != open.ID:
		return writ.Errorf(writ.CodeExecError, "the datacenter took run %s for run %s", open.ID, run.ID)
	case err != nil && !decided(err):
		return err
	case err != nil:
		run = lost(open.Run, writ.AsError(err))
		k.log.WarnContext(ctx, "run lost: the datacenter does not know it and no longer accepts it", "run", open.ID,
			"err", err)
	}
	if err := k.Ledger.Restate(ctx, k.dc, k.session.Hello.Journal, run); err != nil {
		return err
	}
	k.News.Wake()
	return nil
}

// lost returns the failed state of a run that its datacenter does not have and refuses to start again.
func lost(run writ.Run, why *writ.Error) writ.Run {
	run.State, run.Ended = writ.RunFailed, time.Now().UTC().Truncate(time.Microsecond)
	run.Why, run.Reason = writ.Reason{}, ""
	run.Failure = &writ.Failure{Error: *writ.Errorf(writ.CodeRunLost,
		"the datacenter has lost the run and refuses it: %s", why.Message).
		WithHint("check the existing resources with `writ resource list`, then submit the script again")}
	run.Failure.Proof = why.Proof // proof of the refusal
	return run
}

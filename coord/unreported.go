package coord

import (
	"context"
	"time"

	"writ"
	"writ/ledger"
)

// pageOfUnreported is how many runs are read from the ledger at once.
const pageOfUnreported = 100

// clearUnreported asks the datacenter for every open run that its journal has not told of. Mostly there is none, or it will tell soon. But a
// journal that came from a backup knows nothing of the runs that were accepted since: handed in again, they begin again under the same
// id, and nodes repeat nothing. What the datacenter does not take any more is lost, and would be shown as running for ever.
func (k *courier) clearUnreported(ctx context.Context) {
	var after writ.RunID
	for ctx.Err() == nil {
		unreported, err := k.c.Ledger.Unreported(ctx, k.dc, k.session.Hello.Journal, after, pageOfUnreported)
		for i := 0; err == nil && i < len(unreported); i++ {
			if err = k.clear(ctx, unreported[i]); err == nil {
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
			if times, say := k.c.lines.Say("unreported "+string(k.dc)+" "+string(code), time.Now()); say { // it answers as it likes
				k.log.WarnContext(ctx, "ask the datacenter for unreported runs", "code", code, "err", err, "times", times)
			}
		}
		select {
		case <-time.After(retryOne):
		case <-ctx.Done():
		}
	}
}

// clear asks for one run by handing it in again.
func (k *courier) clear(ctx context.Context, open ledger.Run) error {
	run, err := k.hand(ctx, open.Payload)
	switch {
	case writ.CodeOf(err) == writ.CodeNotFound:
		return nil // another coordinator took it, and asks
	case err == nil && run.ID != open.ID:
		return writ.Errorf(writ.CodeExecError, "the datacenter took run %s for run %s", open.ID, run.ID)
	case err != nil && !decided(err):
		return err
	case err != nil:
		run = lost(open.Run, writ.AsError(err))
		k.log.WarnContext(ctx, "run lost: the datacenter does not know it and no longer accepts it", "run", open.ID, "err", err)
	}
	if err := k.c.Ledger.Restate(ctx, k.dc, k.session.Hello.Journal, run); err != nil {
		return err
	}
	k.c.news.wake()
	return nil
}

// lost is a run that its datacenter has forgotten, and refuses to begin again.
func lost(run writ.Run, why *writ.Error) writ.Run {
	run.State, run.Ended, run.Reason = writ.RunFailed, time.Now().UTC().Truncate(time.Microsecond), ""
	run.Failure = &writ.Failure{Error: *writ.Errorf(writ.CodeRunLost, "the datacenter does not know the run any more, and refuses it: %s", why.Message).
		WithHint("look at what there is with writ resource list, then submit the script again")}
	run.Failure.Proof = why.Proof // of the refusal
	return run
}

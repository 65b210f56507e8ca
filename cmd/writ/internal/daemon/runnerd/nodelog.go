package runnerd

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"writ/cmd/writ/internal/config"
	"writ/cmd/writ/internal/redact"
	"writ/internal/logring"
	"writ/runner/nodelog"
)

// keepLog also writes a runner's log to a ring below its data directory. It returns the combined logger and a function
// that ends the writing. That function logs the error that ended the runner, which the program prints elsewhere.
func keepLog(
	ctx context.Context, data string, log *slog.Logger,
) (both *slog.Logger, kept *nodelog.Log, end func(error), err error) {
	kept = &nodelog.Log{Dir: filepath.Join(data, logring.Dir), Redact: redact.Text}
	if err := os.MkdirAll(kept.Dir, 0o700); err != nil {
		return nil, nil, nil, config.Unwritable(data, fmt.Errorf("make the directory of the log: %w", err))
	}
	ring := logring.New()
	handler := logring.NewHandler(ring, logring.Boot(), slog.LevelInfo, redact.Attr)
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	var writing sync.WaitGroup
	writing.Go(func() {
		if err := ring.Run(running, logring.File(kept.Dir, nodelog.Runner)); err != nil {
			log.WarnContext(running, "cannot store the log of the node", "err", err)
		}
	})
	end = func(why error) {
		if why != nil && ctx.Err() == nil {
			slog.New(handler).Error("the runner ends", "err", why)
		}
		stop()
		writing.Wait()
	}
	return slog.New(slog.NewMultiHandler(log.Handler(), handler)), kept, end, nil
}

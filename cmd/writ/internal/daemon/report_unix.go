//go:build unix

package daemon

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"syscall"
)

// ReportOnSignal logs the reachable bytes, after a garbage collection, and the number of goroutines at each SIGUSR1
// until ctx ends. These lines show leaks of a daemon.
func ReportOnSignal(ctx context.Context, log *slog.Logger) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1)
	defer signal.Stop(signals)
	for {
		select {
		case <-ctx.Done():
			return
		case <-signals:
		}
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		log.Info("this process holds", "heap_bytes", m.HeapAlloc, "goroutines", runtime.NumGoroutine())
	}
}

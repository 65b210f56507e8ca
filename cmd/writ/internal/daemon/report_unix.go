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

// ReportOnSignal logs, each time that the process gets SIGUSR1 and until ctx ends, what it holds: bytes that are reachable, after a
// collection of garbage, and goroutines. Whoever watches a daemon for leaks compares these lines.
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

package testenv

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
)

// Log collects log output for tests. It may be used concurrently. The zero value is ready to use.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *Log) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(text)
}

// String returns all collected output.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Reset discards the collected output.
func (l *Log) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Reset()
}

// Logger returns a logger for all levels.
func (l *Log) Logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// Lines counts the lines that contain a text.
func (l *Log) Lines(with string) (n int) {
	for line := range strings.Lines(l.String()) {
		if strings.Contains(line, with) {
			n++
		}
	}
	return n
}

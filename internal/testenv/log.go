package testenv

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
)

// Log keeps what something logs, for tests of that. Several goroutines may use it. The zero value is ready to use.
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

// String returns everything that was logged.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Reset forgets what was logged.
func (l *Log) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Reset()
}

// Logger returns a logger that leaves nothing out.
func (l *Log) Logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// Lines returns how many lines have a text in them.
func (l *Log) Lines(with string) (n int) {
	for line := range strings.Lines(l.String()) {
		if strings.Contains(line, with) {
			n++
		}
	}
	return n
}

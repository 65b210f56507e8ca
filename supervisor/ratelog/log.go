// Package ratelog logs warnings at a bounded rate. A node controls the content and frequency of its messages, but must
// not control the size of the supervisor's log. The first warning of an event is logged at once. Repetitions are
// counted and logged with growing pauses.
package ratelog

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"writ"
	"writ/internal/metrics"
)

// Pauses between two log lines of the same event. The pause doubles while the event repeats.
const (
	firstPause   = 10 * time.Second
	longestPause = 10 * time.Minute
)

// Log logs warnings. It is safe for concurrent use. Create it with New.
type Log struct {
	log   *slog.Logger
	times *prometheus.CounterVec // by message and code, which are constants of this program

	mu  sync.Mutex
	all map[event]*repetition
}

// event identifies warnings that are logged together.
type event struct {
	node    writ.NodeID
	message string
	code    writ.Code
}

// repetition counts an event since its last log line.
type repetition struct {
	since time.Time // time of the last log line, by the monotonic clock
	pause time.Duration
	times int
	args  []any // of the newest warning
}

// New returns a log that writes to log.
func New(log *slog.Logger) *Log {
	return &Log{
		log: log, all: make(map[event]*repetition),
		times: metrics.Counts("writ_supervisor_complaints_total",
			"Problems, mostly of nodes, by log message and refusal code.", "what", "code"),
	}
}

// Warn logs or counts a problem with a node. node is "" if no particular node causes the problem.
func (l *Log) Warn(node writ.NodeID, message string, args ...any) {
	l.add(event{node: node, message: message}, args)
}

// Refused logs or counts a rejected input. `why` is the error of the rejection.
func (l *Log) Refused(node writ.NodeID, message string, why error, args ...any) {
	l.add(event{node, message, writ.CodeOf(why)}, append(args, "err", why))
}

// Repeat logs each event that repeated during its pause, and drops events that did not repeat. Call it at regular
// intervals.
func (l *Log) Repeat(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for e, r := range l.all {
		passed := now.Sub(r.since)
		switch {
		case passed < r.pause:
		case r.times == 0:
			delete(l.all, e)
		default:
			l.write(e, append([]any{"times", r.times, "within", passed.Round(time.Second)}, r.args...))
			*r = repetition{since: now, pause: min(2*r.pause, longestPause)}
		}
	}
}

// Metrics sends the number of warnings since the start.
func (l *Log) Metrics(to *metrics.Scrape) { to.Include(l.times) }

func (l *Log) add(e event, args []any) {
	var code writ.Code // empty unless the supervisor rejected something
	if e.code != "" {
		code = e.code.Info().Code // an unknown code counts as INTERNAL
	}
	l.times.WithLabelValues(e.message, string(code)).Inc()
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.all[e]; r != nil {
		r.times++
		r.args = args
		return
	}
	l.all[e] = &repetition{since: time.Now(), pause: firstPause}
	l.write(e, args)
}

// write writes a log line. The level is error for a forged record, because a person has to act, and warning otherwise.
func (l *Log) write(e event, args []any) {
	level := slog.LevelWarn
	if e.code != "" {
		args = append([]any{"code", e.code}, args...)
	}
	if e.code == writ.CodeRecordForged {
		level = slog.LevelError
	}
	if e.node != "" {
		args = append([]any{"node", e.node}, args...)
	}
	l.log.Log(context.Background(), level, e.message, args...)
}

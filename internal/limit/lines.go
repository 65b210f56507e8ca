package limit

import (
	"log"
	"log/slog"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// repeatInterval is the interval in which a repeated line is only counted.
const repeatInterval = 10 * time.Second

// Lines limits log lines that clients can cause at will. The first line of a kind is logged at once. Later lines of
// that kind are logged once per interval, with their count. The zero value is ready to use. Kinds are never dropped, so
// they must be constants or names of principals in the roster.
type Lines struct {
	// AtOnce is the number of lines of a kind that are logged before further lines are only counted; 0 means 1. A
	// higher number suits kinds whose individual lines matter.
	AtOnce int

	mu  sync.Mutex
	all map[string]*line
}

type line struct {
	rate  *rate.Limiter
	times int // since the last logged line
}

// Say counts a line of a kind. It reports whether to log the line now. times is the number of lines of the kind since
// the last logged line, including this line.
func (l *Lines) Say(kind string, now time.Time) (times int, say bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.all[kind]
	if of == nil {
		if l.all == nil {
			l.all = make(map[string]*line)
		}
		of = &line{rate: rate.NewLimiter(rate.Every(repeatInterval), max(1, l.AtOnce))}
		l.all[kind] = of
	}
	of.times++
	if !of.rate.AllowN(now, 1) {
		return 0, false
	}
	times, of.times = of.times, 0
	return times, true
}

// serverSays lists the known kinds of log lines of an http.Server. All other lines form one further kind.
var serverSays = []string{"http: TLS handshake error", "http: panic serving", "http: Accept error"}

// ErrorLog returns a logger for the field ErrorLog of an http.Server. It limits the lines, because clients that speak
// neither TLS nor HTTP can cause any number of them.
func ErrorLog(to *slog.Logger) *log.Logger { return log.New(&serverLog{to: to}, "", 0) }

type serverLog struct {
	to    *slog.Logger
	lines Lines
}

func (s *serverLog) Write(said []byte) (int, error) {
	text, kind := strings.TrimSpace(string(said)), ""
	for _, known := range serverSays {
		if strings.HasPrefix(text, known) {
			kind = known
		}
	}
	if times, say := s.lines.Say(kind, time.Now()); say {
		s.to.Warn(text, "times", times)
	}
	return len(said), nil
}

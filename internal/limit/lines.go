package limit

import (
	"log"
	"log/slog"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// saidAgain is how long the same is only counted after it was said.
const saidAgain = 10 * time.Second

// Lines says what others cause as often as they like: the first of a kind at once, and then one in a while with how many there were. The zero value
// is ready to use. Each kind that there ever was is kept, so kinds are words of this program, and names of people in the roster.
type Lines struct {
	// AtOnce is how many of a kind are said before any is only counted; 1 if 0. It is for lines of which the last says how things are.
	AtOnce int

	mu  sync.Mutex
	all map[string]*line
}

type line struct {
	rate  *rate.Limiter
	times int // since one was said
}

// Say counts one more of a kind, and reports whether it is to be said now, and for how many.
func (l *Lines) Say(kind string, now time.Time) (times int, say bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.all[kind]
	if of == nil {
		if l.all == nil {
			l.all = make(map[string]*line)
		}
		of = &line{rate: rate.NewLimiter(rate.Every(saidAgain), max(1, l.AtOnce))}
		l.all[kind] = of
	}
	of.times++
	if !of.rate.AllowN(now, 1) {
		return 0, false
	}
	times, of.times = of.times, 0
	return times, true
}

// serverSays are the kinds of what an http.Server says; what else it says is one more.
var serverSays = []string{"http: TLS handshake error", "http: panic serving", "http: Accept error"}

// ErrorLog returns the ErrorLog of an http.Server. Who speaks no TLS, or no HTTP, causes what the server says, as often as he likes.
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

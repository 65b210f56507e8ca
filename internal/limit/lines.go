package limit

import (
	"sync"
	"time"
)

// saidAgain is how long the same is only counted after it was said.
const saidAgain = 10 * time.Second

// Lines says what others cause as often as they like: the first of a kind at once, and then one in a while with how many there were. The zero value
// is ready to use. Each kind that there ever was is kept, so kinds are words of this program, and names of people in the roster.
type Lines struct {
	mu  sync.Mutex
	all map[string]*line
}

type line struct {
	said  time.Time
	times int // since then
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
		of = &line{}
		l.all[kind] = of
	}
	of.times++
	if now.Sub(of.said) < saidAgain {
		return 0, false
	}
	times = of.times
	*of = line{said: now}
	return times, true
}

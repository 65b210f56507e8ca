package progress

import (
	"fmt"
	"time"
)

// Limit is the limit of a wait. The waiting code and the page use the same value, so they cannot differ.
type Limit struct {
	Most time.Duration // no limit if 0
	Then string        // consequence of the limit, or the reason for having none
}

// Wait is something that the machine currently waits for.
type Wait struct {
	Text  string // "" if it is obvious
	Limit Limit
	Since time.Time
}

// String formats the elapsed time, the limit and its consequence.
func (w Wait) String() string {
	text := w.Text
	if text != "" {
		text += ": "
	}
	if w.Limit.Most == 0 {
		return text + "no limit, " + w.Limit.Then
	}
	over := min(time.Since(w.Since), w.Limit.Most)
	return text + fmt.Sprintf("%.0f s of %.0f s, then %s", over.Seconds(), w.Limit.Most.Seconds(), w.Limit.Then)
}

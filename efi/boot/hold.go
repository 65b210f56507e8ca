package boot

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"writ/efi/progress"
	"writ/internal/lazyregexp"
	"writ/internal/sleep"
)

// heldPause is the delay before the runner restarts if it failed twice in a row in the same way. It protects the
// supervisor from the requests of many machines with a token that is used up.
const heldPause = 5 * time.Minute

// pauseOfRunner returns the delay before the runner restarts. `before` is the previous delay, and `lived` is how long
// the runner ran.
func pauseOfRunner(before, lived time.Duration, held bool) time.Duration {
	if held {
		return heldPause
	}
	return pause(before, lived)
}

// hold counts consecutive identical failures. From the second failure on, the stage is held: retries are rare, and the
// status page shows the reason, the time and the remedy.
type hold struct {
	stage, reason, next string
	goesOn              string         // how the stage is retried
	pause               *progress.Wait // until the next retry, nil if unknown
	person              bool           // whether only a person can fix the failure
	// Time of the first failure since the stage last worked, from the start of the kernel.
	since time.Duration
	times int
}

// numbers matches the varying parts of otherwise equal failures: ports, process ids, times.
var numbers = lazyregexp.New(`[0-9]+`)

// alike reports whether two failure texts differ only in numbers.
func alike(a, b string) bool {
	return numbers.ReplaceAllString(a, "") == numbers.ReplaceAllString(b, "")
}

// failed records a failure at the given time.
func (h *hold) failed(r progress.Report, goesOn string, at time.Duration) {
	switch {
	case h.stage != r.Stage:
		*h = hold{stage: r.Stage, since: at}
	case !alike(h.reason, r.Text):
		*h = hold{stage: r.Stage, since: h.since} // the stage has not worked in between
	}
	h.reason, h.next, h.goesOn, h.pause, h.person, h.times = r.Text, r.Next, goesOn, nil, r.Held, h.times+1
	if r.Held { // a retry cannot help
		h.times = max(h.times, 2)
	}
}

func (h *hold) held() bool { return h.times > 1 }

// over resets the hold if a report shows that the stage works or that the node serves.
func (h *hold) over(r progress.Report) {
	if r.Stage == h.stage || r.Stage == progress.StageJoined {
		*h = hold{}
	}
}

// fields returns the lines of the status page about a failure. first is the hint for another problem. If it is not
// empty, it replaces the hint of this failure.
func (h *hold) fields(now time.Duration, first string) (all []field) {
	if h.times > 0 {
		all = append(all, field{
			"since", fmt.Sprintf("%.0f s after its start, for %.0f s", h.since.Seconds(), (now - h.since).Seconds()),
		})
	}
	goesOn := h.goesOn
	if h.pause != nil {
		goesOn = h.pause.String()
	}
	return append(all, field{"next", cmp.Or(first, h.next)}, field{"goes on", goesOn})
}

// field is a line of a page. Pages omit fields without a value.
type field struct{ name, value string }

// fieldHead is the width of a field's name in columns.
const fieldHead = 15

func (f field) lines() (lines []string) {
	head := fmt.Sprintf("  %-11s  ", f.name)
	for _, line := range fold(f.value, columns-pageIndent-fieldHead) {
		lines = append(lines, head+line)
		head = strings.Repeat(" ", fieldHead)
	}
	return lines
}

// failed records the failure of a stage. held reports whether the stage is held now, and news whether the failure must
// be reported.
func (s *status) failed(r progress.Report, goesOn string) (held, news bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.node.hold.held()
	s.node.hold.failed(r.Clean(), goesOn, s.since())
	if !s.started.Load() {
		s.stages.note(r, s.since())
		if r.Held {
			s.stages.stop(r.Stage)
		}
	}
	held = s.node.hold.held()
	news = s.node.hold.times == 1 || held && !was
	if held && news && !s.started.Load() {
		s.next.in(0, s.showStages)
	}
	return held, news
}

// awaitRetry waits until the next retry. The status page shows the remaining time.
func awaitRetry(ctx context.Context, s *status, l progress.Limit) error {
	s.update(func(n *nodeState) bool {
		n.hold.pause = &progress.Wait{Limit: l, Since: time.Now()}
		return false
	})
	return sleep.For(ctx, l.Most)
}

// beside lists problems that do not stop the start, at most one report per stage.
type beside []progress.Report

func (b beside) text() string {
	texts := make([]string, len(b))
	for i, r := range b {
		texts[i] = r.Text
	}
	return strings.Join(texts, "; ")
}

// next returns the remedy of the first problem.
func (b beside) next() string {
	if len(b) == 0 {
		return ""
	}
	return b[0].Next
}

// put records the problem of a stage that does not stop the start. A report without a text clears the problem. put
// reports whether the list changed.
func (b *beside) put(r progress.Report) (news bool) {
	i := slices.IndexFunc(*b, func(known progress.Report) bool { return known.Stage == r.Stage })
	switch {
	case i < 0 && r.Text == "" || i >= 0 && (*b)[i].Text == r.Text:
		return false
	case i < 0:
		*b = append(*b, r)
	case r.Text == "":
		*b = slices.Delete(*b, i, i+1)
	default:
		(*b)[i] = r
	}
	return true
}

// addTo adds the problems to a report of the runner. Their remedy has precedence.
func (b beside) addTo(r progress.Report) progress.Report {
	if len(b) == 0 {
		return r
	}
	if text := b.text(); r.Text == "" {
		r.Text = text
	} else {
		r.Text = text + "; " + r.Text
	}
	r.Next = cmp.Or(b.next(), r.Next)
	return r
}

// fine reports whether the node serves, waits only for approval, or is being turned off.
func (s *status) fine() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next.over || s.node.wrong == "" && (s.node.serves || s.node.waited)
}

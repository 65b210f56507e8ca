package boot

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"time"

	"writ/efi/progress"
)

// heldPause is how long the runner is left alone when it failed twice in a row in the same way. A rack of machines with a token that is spent asks
// its supervisor seldom then.
const heldPause = 5 * time.Minute

// pauseOfRunner is how long a runner that lived so long is left alone, after so long before that start.
func pauseOfRunner(before, lived time.Duration, held bool) time.Duration {
	if held {
		return heldPause
	}
	return pause(before, lived)
}

// hold counts how often something failed in the same way, one time after the other. From the second time on it is held: it is tried seldom, and
// the page of the machine says why, since when and what to do.
type hold struct {
	stage, reason, next string
	goesOn              string        // how it is tried again
	since               time.Duration // from the start of the kernel to the first of these failures
	times               int
}

// numbers differ from one failure to the next that is the same: ports, processes, times.
var numbers = regexp.MustCompile(`[0-9]+`)

// failed notes a failure, and when it was.
func (h *hold) failed(r progress.Report, goesOn string, at time.Duration) {
	same := func(text string) string { return numbers.ReplaceAllString(text, "") }
	if h.stage != r.Stage || same(h.reason) != same(r.Text) {
		*h = hold{stage: r.Stage, since: at}
	}
	h.reason, h.next, h.goesOn, h.times = r.Text, r.Next, goesOn, h.times+1
	if r.Held { // nothing else can come of it
		h.times = max(h.times, 2)
	}
}

func (h *hold) held() bool { return h.times > 1 }

// over ends a hold if a report says that its stage works, or that the node serves.
func (h *hold) over(r progress.Report) {
	if r.Stage == h.stage || r.Stage == progress.StageJoined {
		*h = hold{}
	}
}

// fields are what a page says of a failure. What to do about something else that does not work comes first.
func (h *hold) fields(now time.Duration, first string) (all []field) {
	if h.times > 0 {
		all = append(all, field{"since", fmt.Sprintf("%.0f s after its start, for %.0f s", h.since.Seconds(), (now - h.since).Seconds())})
	}
	return append(all, field{"next", cmp.Or(first, h.next)}, field{"goes on", h.goesOn})
}

// field is a line of a page. It is not shown if it has no value.
type field struct{ name, value string }

func (f field) String() string { return fmt.Sprintf("  %-11s  %s", f.name, f.value) }

// failure is an error as it is reported.
func failure(stage string, err error) progress.Report {
	return progress.Report{Stage: stage, Text: strings.ReplaceAll(err.Error(), "\n", "; "), Next: hintOf(err), Failed: true}
}

// failed notes that a stage failed. held says whether that was so the last time, too, and news whether this is new.
func (s *status) failed(r progress.Report, goesOn string) (held, news bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.hold.held()
	s.hold.failed(r, goesOn, s.since())
	held = s.hold.held()
	news = s.hold.times == 1 || held && !was
	if held && news && !s.started.Load() {
		s.showIn(0, s.showStages)
	}
	return held, news
}

// goesOn says how a failure is tried again.
func (s *status) goesOn(how string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hold.goesOn = how
}

// besides notes what does not work though the start goes on, or that nothing is known if there is no text. It reports whether that is new.
func (s *status) besides(r progress.Report) (news bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if news = s.beside.Text != r.Text; news {
		s.beside = r
		if s.started.Load() {
			s.shown = unknown // so that the page is shown soon
			s.later()
		}
	}
	return news
}

// fine reports whether the node serves, or waits for a person only.
func (s *status) fine() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over || s.wrong == "" && (s.serves || s.waited)
}

// withBeside is a text with what does not work besides.
func (s *status) withBeside(text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.beside.Text == "" {
		return text
	}
	return s.beside.Text + "; " + text
}

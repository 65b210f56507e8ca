package boot

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"writ/efi/progress"
	"writ/internal/sleep"
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
	pause               *wait         // until it is tried again, nil if that is not known
	person              bool          // nothing but a person can mend it
	since               time.Duration // from the start of the kernel to the first failure of the stage that nothing good came after
	times               int
}

// numbers differ from one failure to the next that is the same: ports, processes, times.
var numbers = regexp.MustCompile(`[0-9]+`)

// alike reports whether two failures are the same.
func alike(a, b string) bool {
	return numbers.ReplaceAllString(a, "") == numbers.ReplaceAllString(b, "")
}

// failed notes a failure, and when it was.
func (h *hold) failed(r progress.Report, goesOn string, at time.Duration) {
	switch {
	case h.stage != r.Stage:
		*h = hold{stage: r.Stage, since: at}
	case !alike(h.reason, r.Text):
		*h = hold{stage: r.Stage, since: h.since} // the stage did not work in between
	}
	h.reason, h.next, h.goesOn, h.pause, h.person, h.times = r.Text, r.Next, goesOn, nil, r.Held, h.times+1
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
	goesOn := h.goesOn
	if h.pause != nil {
		goesOn = h.pause.String()
	}
	return append(all, field{"next", cmp.Or(first, h.next)}, field{"goes on", goesOn})
}

// field is a line of a page. It is not shown if it has no value.
type field struct{ name, value string }

// fieldHead is how many columns are before its value.
const fieldHead = 15

func (f field) lines() (lines []string) {
	head := fmt.Sprintf("  %-11s  ", f.name)
	for _, line := range fold(f.value, columns-pageIndent-fieldHead) {
		lines = append(lines, head+line)
		head = strings.Repeat(" ", fieldHead)
	}
	return lines
}

// failure is an error as it is reported.
func failure(stage string, err error) progress.Report {
	return progress.Report{Stage: stage, Text: strings.ReplaceAll(err.Error(), "\n", "; "), Next: hintOf(err), Failed: true}
}

// failed notes that a stage failed. held says whether that was so the last time, too, and news whether this is new.
func (s *status) failed(r progress.Report, goesOn string) (held, news bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.hold.held()
	s.hold.failed(r.Clean(), goesOn, s.since())
	if !s.started.Load() {
		s.stages.note(r, s.since())
		if r.Held {
			s.stages.stop(r.Stage)
		}
	}
	held = s.hold.held()
	news = s.hold.times == 1 || held && !was
	if held && news && !s.started.Load() {
		s.showIn(0, s.showStages)
	}
	return held, news
}

// pauses waits until what failed is tried again, and has the page say for how long.
func (s *status) pauses(ctx context.Context, l waitLimit) error {
	s.mu.Lock()
	s.hold.pause = &wait{limit: l, since: time.Now()}
	s.mu.Unlock()
	return sleep.For(ctx, l.most)
}

// beside is what does not work though the start goes on, one report for each stage.
type beside []progress.Report

func (b beside) text() string {
	texts := make([]string, len(b))
	for i, r := range b {
		texts[i] = r.Text
	}
	return strings.Join(texts, "; ")
}

// next is what to do about the first of them.
func (b beside) next() string {
	if len(b) == 0 {
		return ""
	}
	return b[0].Next
}

// besides notes what does not work of a stage though the start goes on, or that nothing is known of it if there is no text. It reports whether that
// is new.
func (s *status) besides(r progress.Report) (news bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.beside, func(known progress.Report) bool { return known.Stage == r.Stage })
	switch {
	case i < 0 && r.Text == "" || i >= 0 && s.beside[i].Text == r.Text:
		return false
	case i < 0:
		s.beside = append(s.beside, r)
	case r.Text == "":
		s.beside = slices.Delete(s.beside, i, i+1)
	default:
		s.beside[i] = r
	}
	if s.started.Load() {
		s.shown = unknown // so that the page is shown soon
		s.later()
	}
	return true
}

// fine reports whether the node serves, or waits for a person only.
func (s *status) fine() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over || s.wrong == "" && (s.serves || s.waited)
}

// withBeside is a failure of the runner as it is reported: with what does not work besides, and what to do about that first.
func (s *status) withBeside(r progress.Report) progress.Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.beside) == 0 {
		return r
	}
	if text := s.beside.text(); r.Text == "" {
		r.Text = text
	} else {
		r.Text = text + "; " + r.Text
	}
	r.Next = cmp.Or(s.beside.next(), r.Next)
	return r
}

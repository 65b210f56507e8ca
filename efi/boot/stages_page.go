package boot

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"writ/efi/progress"
)

// The page of the start has room on a screen of 80 columns and 25 lines.
const (
	columns    = 79 // a character in the last column moves some terminals to the next line
	pageIndent = 2
	stageHead  = 29 // columns before the text of a stage
	nowLines   = 6  // of the text of the stage that goes on
	heldLines  = 4  // the same of one that is held, of which the page has more below
	pageLines  = 24 // with the empty line below
)

// showStages shows how far the machine is, if it still starts.
func (s *status) showStages() {
	var cards []wait
	if s.cards != nil {
		cards = s.cards() // before the lock: who tells a stage may hold the one of the network
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.starting() {
		return
	}
	title, held := "This machine starts, and is no node yet.", ""
	if s.hold.held() && !s.started.Load() {
		held = s.hold.stage
		title = "This machine is held at " + held + ": it failed twice in the same way."
		if s.hold.person {
			title = "This machine is held at " + held + ": it needs a person."
		}
	}
	var why []string
	if held != "" {
		why = append([]string{""}, textOf(append([]field{{"trouble", s.hold.reason}}, s.hold.fields(s.since(), "")...))...)
	}
	lines := s.stages.lines(s.since(), held, cards, false)
	if len(lines)+len(why)+2 >= pageLines {
		lines = s.stages.lines(s.since(), held, cards, true)
	}
	s.page(slices.Concat([]string{title, ""}, lines, why)...)
	s.showIn(startEvery, s.showStages)
}

// lines are the stages with their ages and limits. held is the stage that is held, if one is, and cards what network cards wait for. Those that are
// done have one line together if brief is set.
func (w stages) lines(now time.Duration, held string, cards []wait, brief bool) (lines []string) {
	lines = append(lines, fmt.Sprintf("%4s %-8s %6s %6s", "", "stage", "from s", "for s"))
	var done, next []string
	for i, s := range w {
		switch state := w.state(i, held); {
		case state == isDone && brief:
			done = append(done, s.stage)
		case state == isDone || state == hasFailed:
			lines = append(lines, s.lines(state, s.over(), s.said(), 1)...)
		case state == isHeld:
			lines = append(lines, s.lines(state, now, s.waitText(cards, "see below"), heldLines)...)
		case state == isNow:
			if !s.reached() {
				s.began = w.end()
			}
			lines = append(lines, s.lines(state, now, s.waitText(cards, s.said()), nowLines)...)
		case held != "":
			next = append(next, s.stage)
		default:
			lines = append(lines, s.lines(state, unknownTime, s.plan, 1)...)
		}
	}
	if len(done) > 0 {
		lines = slices.Insert(lines, 1, isDone+" "+strings.Join(done, ", "))
	}
	if len(next) > 0 {
		lines = append(lines, isNext+" "+strings.Join(next, ", "))
	}
	return lines
}

// How a stage is.
const (
	isDone    = "done"
	hasFailed = "fail" // and the start goes on
	isHeld    = "held"
	isNow     = "now"
	isNext    = "next"
)

// state says how a stage is, if the one with the name held is held.
func (w stages) state(i int, held string) string {
	last := w.last()
	going := last
	if last < 0 || w[last].done {
		going++
	}
	switch s := w[i]; {
	case s.stage == held && !s.done:
		return isHeld
	case s.done || i < last && !s.failed:
		return isDone
	case i < last:
		return hasFailed
	case i == going && held == "":
		return isNow
	}
	return isNext
}

// said is what was told of the stage, or what it does.
func (s *startStage) said() string {
	switch {
	case s.text == "":
		return s.plan
	case s.failed:
		return "error: " + s.text
	}
	return s.text
}

// waitText says what the stage waits for, with the limit of that, or else something.
func (s *startStage) waitText(cards []wait, otherwise string) string {
	var all []string
	switch {
	case s.stage == progress.StageNetwork && len(cards) > 0:
		for _, one := range cards {
			one.text = progress.Text(one.text, progress.MaxText)
			all = append(all, one.String())
		}
	case s.wait.since.IsZero():
		return otherwise
	default:
		all = append(all, s.wait.String())
	}
	return strings.Join(all, "\n")
}

// unknownTime is that of a stage of which nothing was told.
const unknownTime = -1

// over is when the stage was done.
func (s *startStage) over() time.Duration {
	if !s.done {
		return unknownTime
	}
	return s.ended
}

// lines are those of a stage, in so many lines at most. until is when it was done, or now.
func (s *startStage) lines(state string, until time.Duration, text string, most int) (lines []string) {
	from, took := "", ""
	if until != unknownTime {
		from, took = fmt.Sprintf("%.1f", s.began.Seconds()), fmt.Sprintf("%.1f", (until-s.began).Seconds())
	}
	head := fmt.Sprintf("%-4s %-8s %6s %6s  ", state, s.stage, from, took)
	for _, line := range foldAtMost(text, columns-pageIndent-stageHead, most) {
		lines = append(lines, head+line)
		head = strings.Repeat(" ", stageHead)
	}
	return lines
}

// fold breaks a text into lines that are no longer than that, between words if it can.
func fold(text string, width int) (lines []string) {
	for part := range strings.SplitSeq(text, "\n") {
		for utf8.RuneCountInString(part) > width {
			runes := []rune(part)
			line := string(runes[:width+1])
			if space := strings.LastIndexByte(line, ' '); space > 0 {
				lines, part = append(lines, line[:space]), part[space+1:]
				continue
			}
			lines, part = append(lines, string(runes[:width])), string(runes[width:])
		}
		lines = append(lines, part)
	}
	return lines
}

// foldAtMost folds a text, and says by three dots if there is more.
func foldAtMost(text string, width, most int) []string {
	lines := fold(text, width)
	if len(lines) <= most {
		return lines
	}
	const more = "..."
	runes := []rune(lines[most-1])
	return append(lines[:most-1], strings.TrimRight(string(runes[:min(len(runes), width-len(more))]), " ")+more)
}

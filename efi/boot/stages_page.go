package boot

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"writ/efi/progress"
)

// The page of the start fits on a screen of 80 columns and 25 lines.
const (
	columns    = 79 // some terminals wrap after a character in column 80
	pageIndent = 2
	stageHead  = 29 // columns before the text of a stage
	nowLines   = 6  // maximum lines of the current stage
	heldLines  = 4  // maximum lines of the held stage, which has more details below
	pageLines  = 24 // including the empty line below
)

// showStages shows the page of the stages while the machine starts.
func (s *status) showStages() {
	var cards []progress.Wait
	if s.cards != nil {
		// cards locks the network. A caller that reports a stage may hold that lock and wait for mu, so cards is called
		// before mu is locked.
		cards = s.cards()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.starting() {
		return
	}
	title, held := "This machine is starting and is not a node yet.", ""
	if s.node.hold.held() && !s.started.Load() {
		held = s.node.hold.stage
		title = "This machine is held at " + held + ": it failed twice in the same way."
		if s.node.hold.person {
			title = "This machine is held at " + held + ": it waits for a person to act."
		}
	}
	var why []string
	if held != "" {
		why = append([]string{""},
			textOf(append([]field{{"trouble", s.node.hold.reason}}, s.node.hold.fields(s.since(), "")...))...)
	}
	lines := s.stages.lines(s.since(), held, cards, false)
	if len(lines)+len(why)+2 >= pageLines {
		lines = s.stages.lines(s.since(), held, cards, true)
	}
	s.page(slices.Concat([]string{title, ""}, lines, why)...)
	s.next.in(startEvery, s.showStages)
}

// lines formats the stages with their times and limits. held is the name of the held stage, if any, and cards are the
// waits of the network cards. If brief is set, finished stages share one line.
func (w stages) lines(now time.Duration, held string, cards []progress.Wait, brief bool) (lines []string) {
	lines = append(lines, fmt.Sprintf("%4s %-8s %6s %6s", "", "stage", "from s", "for s"))
	var done, next []string
	for i, s := range w {
		switch state := w.state(i, held); {
		case state == isDone && brief:
			done = append(done, s.stage)
		case state == isDone || state == hasFailed:
			lines = append(lines, s.lines(state, s.over(), s.latestText(), 1)...)
		case state == isHeld:
			lines = append(lines, s.lines(state, now, s.waitText(cards, "see below"), heldLines)...)
		case state == isNow:
			if !s.reached() {
				s.began = w.end()
			}
			lines = append(lines, s.lines(state, now, s.waitText(cards, s.latestText()), nowLines)...)
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

// States of a stage.
const (
	isDone    = "done"
	hasFailed = "fail" // it failed, and the start continues
	isHeld    = "held"
	isNow     = "now"
	isNext    = "next"
)

// state returns the state of stage i. held is the name of the held stage, if any.
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

// latestText returns the latest report of the stage, or its plan.
func (s *startStage) latestText() string {
	switch {
	case s.text == "":
		return s.plan
	case s.failed:
		return "error: " + s.text
	}
	return s.text
}

// waitText describes the current wait of the stage with its limit. If the stage does not wait, it returns the parameter
// `otherwise`.
func (s *startStage) waitText(cards []progress.Wait, otherwise string) string {
	var all []string
	switch {
	case s.stage == progress.StageNetwork && len(cards) > 0:
		for _, one := range cards {
			one.Text = progress.Text(one.Text, progress.MaxText)
			all = append(all, one.String())
		}
	case s.wait.Since.IsZero():
		return otherwise
	default:
		all = append(all, s.wait.String())
	}
	return strings.Join(all, "\n")
}

// unknownTime marks an unfinished stage.
const unknownTime = -1

// over returns when the stage ended, or unknownTime.
func (s *startStage) over() time.Duration {
	if !s.done {
		return unknownTime
	}
	return s.ended
}

// lines formats the stage. `most` limits the number of lines. `until` is the end of the stage, or now.
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

// fold breaks a text into lines of at most width characters, between words if possible.
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

// foldAtMost folds a text into lines. `most` limits their number. Three dots mark omitted text.
func foldAtMost(text string, width, most int) []string {
	lines := fold(text, width)
	if len(lines) <= most {
		return lines
	}
	const more = "..."
	runes := []rune(lines[most-1])
	return append(lines[:most-1], strings.TrimRight(string(runes[:min(len(runes), width-len(more))]), " ")+more)
}

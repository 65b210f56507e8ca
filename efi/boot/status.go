package boot

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"writ"
	"writ/efi/progress"
)

// Delays of the pages.
const (
	// quiet is how long the runner must be silent before the page is shown, so that the page is the last thing on the
	// screen.
	quiet = time.Second
	// calm replaces quiet if the latest page was about the same condition, unless the node waits for approval.
	calm = time.Minute
	// If a stage takes longer than startQuiet, the page of all stages is shown, and again every startEvery.
	startQuiet = 3 * time.Second
	startEvery = 30 * time.Second
)

// status is the page that shows the state of the machine: its name and addresses, the problems and the next step. It
// also shows the fingerprint of a node that waits for approval. An admin can trust a fingerprint only if it was read on
// the machine itself.
type status struct {
	*consoles
	version   string
	addresses func() string          // of the network cards
	cards     func() []progress.Wait // waits of the network cards; may be nil

	started atomic.Bool // set when the runner has started; the page is then about the node

	mu     sync.Mutex
	node   nodeState
	stages stages
	next   schedule
	shown  condition // condition shown by the latest page
}

// note records a report of the start.
func (s *status) note(r progress.Report) {
	if slices.Contains(ofNode, r.Stage) {
		s.started.Store(true)
		return
	}
	if s.started.Load() { // for example a renewed lease
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !r.Failed {
		s.node.hold.over(r)
	}
	s.stages.note(r, s.since())
	if !r.Failed || s.next.timer == nil {
		s.reached()
	}
}

// begin records that the runner was started.
func (s *status) begin() {
	s.started.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.node.begin()
	s.stages.waits(progress.StageRunner, progress.Wait{
		Text: "asks its supervisor to join", Limit: joinLimit, Since: time.Now(),
	})
	s.reached()
}

// end records how the runner exited. It returns true if the previous failure was the same.
func (s *status) end(how string) (held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.node.end(how, s.since())
	s.node.refresh()
	s.later()
	return s.node.hold.held()
}

// off stops all pages, because the machine is being turned off.
func (s *status) off() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next.stop()
}

// look updates the status after each line of the runner and schedules the page below that line. meaning is the report
// in the line, if known. look returns true if the line reports the same failure again.
func (s *status) look(meaning progress.Report, known bool) (again bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next.over {
		return false
	}
	if known {
		again = s.node.look(meaning, s.since())
	}
	if known && !meaning.Failed && (meaning.Text != "" || meaning.Next == "") {
		s.stages.note(progress.Report{Stage: progress.StageRunner}, s.since())
		s.stages.note(progress.Report{Stage: progress.StageJoined}, s.since())
	}
	if s.node.admission != nil {
		s.lookForDecision()
		s.later()
	}
	return again
}

// lookForDecision checks whether the datacenter has decided about the node, and reports the decision once. The caller
// holds mu.
func (s *status) lookForDecision() {
	if s.node.decided {
		return
	}
	s.node.refresh()
	switch {
	case s.node.now.State == "":
	case s.node.now.State == writ.AdmissionPending:
		if !s.node.waited {
			s.node.waited, s.node.wrong, s.node.beside, s.node.hold, s.node.asked = true, "", nil, hold{}, s.since()
			s.stages.note(progress.Report{Stage: progress.StageRunner}, s.since())
			// The report omits the fingerprint, which people must read on the machine itself.
			s.report(progress.Report{Stage: progress.StageWaits, Node: s.node.now.Name})
		}
	default:
		s.node.decided = true
		if s.node.waited {
			text := fmt.Sprintf("the datacenter has %s this node", s.node.now.State)
			s.Show(progress.StageApprove, text)
			s.report(progress.Report{
				Stage: progress.StageApprove, Text: text, Failed: s.node.now.State != writ.AdmissionApproved,
			})
		}
	}
}

// later schedules the page for the time when the runner has been quiet long enough. The caller holds mu.
func (s *status) later() {
	if s.next.over || s.node.condition() == unknown {
		return
	}
	wait := calm
	if c := s.node.condition(); c != s.shown || c == pending {
		wait = quiet
	}
	s.next.in(wait, s.showPage)
}

// showPage shows the page.
func (s *status) showPage() {
	// addresses locks the network. A caller that reports a stage may hold that lock and wait for mu, so this call
	// precedes the locking of mu.
	addresses := ""
	if s.addresses != nil {
		addresses = s.addresses()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next.over || s.node.condition() == unknown {
		return
	}
	s.node.refresh()
	s.shown = s.node.condition()
	title, next := s.node.words(s.shown)
	fields := append(s.node.fields(addresses, s.version), s.node.details(s.shown, s.since(), s.stages)...)
	s.page(slices.Concat([]string{title, ""}, textOf(fields), []string{""}, next)...)
	if s.shown == held || s.shown == failing { // these pages show a duration
		s.next.in(calm, s.showPage)
	}
}

// update changes the state of the node on the page. If change returns true, the page is redrawn soon.
func (s *status) update(change func(n *nodeState) bool) (news bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	news = change(&s.node)
	if news && s.started.Load() {
		s.shown = unknown // redraw the page soon
		s.later()
	}
	return news
}

// schedule holds the next page. It is guarded by the lock of its status.
type schedule struct {
	timer *time.Timer // nil before the first page
	over  bool        // whether the machine is being turned off
}

// in schedules a page and cancels the previously scheduled page.
func (s *schedule) in(wait time.Duration, show func()) {
	if s.timer != nil {
		s.timer.Stop()
	}
	if !s.over {
		s.timer = time.AfterFunc(wait, show)
	}
}

// stop cancels the scheduled page and prevents later pages.
func (s *schedule) stop() {
	s.over = true
	if s.timer != nil {
		s.timer.Stop()
	}
}

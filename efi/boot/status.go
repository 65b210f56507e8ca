package boot

import (
	"fmt"
	"slices"
	"strings"
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
	// calm replaces quiet if the page has not changed and no action is needed.
	calm = time.Minute
	// A stage that takes longer than startQuiet is shown with all stages, and again every startEvery.
	startQuiet = 3 * time.Second
	startEvery = 30 * time.Second
)

// Admission is the runner's state in the datacenter.
type Admission struct {
	State             writ.Admission // "" before it has reached its supervisor
	Name, Fingerprint string         // the node's name and the fingerprint of its key
	Datacenter        string         // "" if unknown
}

// status is the page that shows the state of the machine: its name and addresses, the problems and the next step. It
// also shows the fingerprint of a node that waits for approval. An admin can trust a fingerprint only if it was read on
// the machine itself.
type status struct {
	*consoles
	version   string
	admission func() Admission       // nil if no page about the node is shown
	addresses func() string          // of the network cards
	cards     func() []progress.Wait // waits of the network cards; may be nil

	started atomic.Bool // set when the runner has started; the page is then about the node

	mu      sync.Mutex
	stages  stages
	timer   *time.Timer
	now     Admission     // latest state
	decided bool          // whether the decision of the datacenter is known
	waited  bool          // whether the node waited for it
	asked   time.Duration // when it began to wait, from the start of the kernel
	serves  bool
	wrong   string    // last error of the runner
	ended   string    // how the runner exited; "" while it runs
	shown   condition // condition shown by the latest page
	over    bool      // whether the machine is being turned off

	hold     hold   // latest failure
	counted  bool   // whether this run of the runner has already counted as failed
	beside   beside // problems that do not stop the start
	clock    string // problem of the clock, "" if none is known
	services []serviceSeen
	more     []field // additional fields of the page
}

// serviceSeen is the latest state of a service.
type serviceSeen struct {
	name, wrong string // wrong is "" while it runs
}

// condition is the subject of a page.
type condition string

const (
	unknown condition = "" // no page yet
	refused condition = "refused"
	held    condition = "held"
	stopped condition = "stopped"
	pending condition = "pending"
	serving condition = "serving"
	failing condition = "failing"
)

// condition returns the current condition. The caller holds mu.
func (s *status) condition() condition {
	switch {
	case s.admission == nil:
		return unknown
	case s.now.State == writ.AdmissionRejected || s.now.State == writ.AdmissionRemoved:
		return refused
	case s.hold.held():
		return held
	case s.ended != "":
		return stopped
	case s.now.State == writ.AdmissionPending:
		return pending
	case s.serves && s.wrong == "":
		return serving
	case s.wrong != "" || len(s.beside) > 0:
		return failing
	}
	return unknown
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
		s.hold.over(r)
	}
	s.stages.note(r, s.since())
	if !r.Failed || s.timer == nil {
		s.reached()
	}
}

// showIn schedules a page and cancels the one scheduled before. The caller holds mu.
func (s *status) showIn(wait time.Duration, show func()) {
	if s.timer != nil {
		s.timer.Stop()
	}
	if !s.over {
		s.timer = time.AfterFunc(wait, show)
	}
}

// textOf formats fields and omits empty ones.
func textOf(fields []field) (lines []string) {
	for _, f := range fields {
		if f.value != "" {
			lines = append(lines, f.lines()...)
		}
	}
	return lines
}

// begin records that the runner was started.
func (s *status) begin() {
	s.started.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended, s.serves, s.decided, s.waited, s.counted = "", false, false, false, false
	s.stages.waits(progress.StageRunner, progress.Wait{
		Text: "asks its supervisor to join", Limit: joinLimit, Since: time.Now(),
	})
	s.reached()
}

// end records how the runner exited. It returns true if the previous failure was the same.
func (s *status) end(how string) (held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended, s.serves = how, false
	if !s.counted { // otherwise its error was counted, which is more specific
		s.hold.failed(progress.Report{Stage: progress.StageRunner, Text: how}, "", s.since())
	}
	if s.admission != nil {
		s.now = s.admission()
	}
	s.later()
	return s.hold.held()
}

// service records the state of a service. wrong is "" while it runs.
func (s *status) service(name, wrong string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.services, func(seen serviceSeen) bool { return seen.name == name })
	if i < 0 {
		i = len(s.services)
		s.services = append(s.services, serviceSeen{name: name})
	}
	s.services[i].wrong = wrong
	if s.started.Load() {
		s.shown = unknown // redraw the page soon
		s.later()
	}
}

// also adds a field to the page.
func (s *status) also(f field) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.value = progress.Text(f.value, progress.MaxText)
	s.more = append(s.more, f)
}

// clockIs records the problem of the clock, "" if it is correct.
func (s *status) clockIs(wrong string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock = wrong
	if s.started.Load() {
		s.shown = unknown // redraw the page soon
		s.later()
	}
}

// serviceText formats the states of the services. The caller holds mu.
func (s *status) serviceText() string {
	var all []string
	for _, seen := range s.services {
		text := seen.name + " runs"
		if seen.wrong != "" {
			text = seen.name + " " + seen.wrong
		}
		all = append(all, progress.Text(text, progress.MaxText))
	}
	return strings.Join(all, "; ")
}

// off stops all pages, because the machine is being turned off.
func (s *status) off() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	if s.timer != nil {
		s.timer.Stop()
	}
}

// look updates the status after each line of the runner and schedules the page below that line. meaning is the report
// that the line stands for, if known. It returns true if the line is the same failure as the previous one.
func (s *status) look(meaning progress.Report, known bool) (again bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return false
	}
	switch {
	case known && meaning.Text == "" && meaning.Next != "":
		s.hold.next = meaning.Next
	case known && meaning.Failed:
		s.wrong, s.counted = meaning.Text, true
		s.hold.failed(meaning, "", s.since())
		again = s.hold.held()
	case known:
		s.serves, s.wrong, s.beside = true, "", nil
		s.stages.note(progress.Report{Stage: progress.StageRunner}, s.since())
		s.stages.note(progress.Report{Stage: progress.StageJoined}, s.since())
		s.hold.over(meaning)
	}
	if s.admission != nil {
		s.lookForDecision()
		s.later()
	}
	return again
}

// lookForDecision polls the decision of the datacenter until it is known. The caller holds mu.
func (s *status) lookForDecision() {
	if s.decided {
		return
	}
	s.now = s.admission()
	switch {
	case s.now.State == "":
	case s.now.State == writ.AdmissionPending:
		if !s.waited {
			s.waited, s.wrong, s.beside, s.hold, s.asked = true, "", nil, hold{}, s.since()
			s.stages.note(progress.Report{Stage: progress.StageRunner}, s.since())
			// Without the fingerprint, which must be read on the machine itself.
			s.report(progress.Report{Stage: progress.StageWaits, Node: s.now.Name})
		}
	default:
		s.decided = true
		if s.waited {
			text := fmt.Sprintf("the datacenter has %s this node", s.now.State)
			s.Show(progress.StageApprove, text)
			s.report(progress.Report{
				Stage: progress.StageApprove, Text: text, Failed: s.now.State != writ.AdmissionApproved,
			})
		}
	}
}

// later schedules the page for when the runner is quiet. The caller holds mu.
func (s *status) later() {
	if s.over || s.condition() == unknown {
		return
	}
	wait := calm
	if c := s.condition(); c != s.shown || c == pending {
		wait = quiet
	}
	s.showIn(wait, s.showPage)
}

// showPage shows the page.
func (s *status) showPage() {
	addresses := s.addressText() // before taking mu: a caller that reports a stage may hold the network's lock
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || s.condition() == unknown {
		return
	}
	s.now = s.admission()
	s.shown = s.condition()
	title, next := s.words()
	lines := []string{title, ""}
	fields := []field{
		{"name", s.now.Name}, {"datacenter", s.now.Datacenter}, {"addresses", addresses},
		{"fingerprint", s.now.Fingerprint}, {"version", s.version},
		{"services", s.serviceText()}, {"clock", progress.Text(s.clock, progress.MaxText)}, {"trouble", s.trouble()},
	}
	fields = append(fields, s.more...)
	switch s.shown {
	case pending:
		fields = append(fields, field{
			"waits", fmt.Sprintf("since %.0f s after its start: %s", s.asked.Seconds(), progress.Wait{Limit: approvalLimit}),
		})
	case serving:
		fields = append(fields, field{"started", s.stages.took()})
	case held, stopped, failing:
		fields = append(fields, s.hold.fields(s.since(), s.beside.next())...)
	}
	s.page(append(append(append(lines, textOf(fields)...), ""), next...)...)
	if s.shown == held || s.shown == failing { // these pages show a duration
		s.showIn(calm, s.showPage)
	}
}

// words returns the title of the page and the next steps. The caller holds mu.
func (s *status) words() (title string, next []string) {
	switch s.shown {
	case pending:
		return "This machine waits for approval as a node.", slices.Concat(
			[]string{"An admin of the cluster approves it with", ""}, approval(s.now.Name, s.now.Fingerprint),
			[]string{"", "Then it continues by itself."},
		)
	case serving:
		return "This machine serves as a node.", []string{"No action is needed. For more: writ node show " + s.now.Name}
	case refused:
		return fmt.Sprintf("The datacenter has %s this node.",
			s.now.State), []string{"To use the machine again, give it another token and start it again."}
	case held:
		return "This machine is held: it failed twice in the same way.", []string{
			"It retries by itself. To retry at once when that is done, turn it off and on with its power button.",
		}
	case stopped:
		return "The runner of this machine has ended.", []string{"It is started again by itself."}
	default:
		if s.serves {
			return "This machine is a node but gets no work.", []string{"It tries again by itself."}
		}
		return "This machine cannot join its datacenter yet.", []string{"It tries again by itself."}
	}
}

// approval returns the command that approves a node. If it exceeds the screen width, it is split with a shell
// continuation.
func approval(name, fingerprint string) []string {
	command := "  writ node approve " + name + " "
	if len(command)+len(fingerprint) <= columns-pageIndent {
		return []string{command + fingerprint}
	}
	return []string{command + `\`, "    " + fingerprint}
}

// trouble returns the current problem, "" if none is known. The caller holds mu.
func (s *status) trouble() string {
	var all []string
	for _, text := range []string{s.ended, s.beside.text(), s.wrong} {
		if text != "" {
			all = append(all, text)
		}
	}
	return progress.Text(strings.Join(all, ": "), progress.MaxText)
}

func (s *status) addressText() string {
	if s.addresses == nil {
		return ""
	}
	return s.addresses()
}

// name returns the name of the node in the datacenter, "" if unknown.
func (s *status) name() string {
	if s.admission == nil {
		return ""
	}
	return s.admission().Name
}

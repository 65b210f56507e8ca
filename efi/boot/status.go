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

// The paces of the page.
const (
	// quiet is how long the runner says nothing before the page is shown, so that the page is the last thing on the screen.
	quiet = time.Second
	// calm is the same where the page is the last one again, and nobody has to do anything.
	calm = time.Minute
	// startQuiet is how long a stage may take until all are shown, and startEvery how often they are shown again.
	startQuiet = 3 * time.Second
	startEvery = 30 * time.Second
)

// Admission is what the runner knows of its place in the datacenter.
type Admission struct {
	State             writ.Admission // "" if it has not reached its supervisor
	Name, Fingerprint string         // of the node, and of its key
	Datacenter        string         // "" if it is not known
}

// status is a page that says how the machine is: what it is called and where it is, what is wrong, and what to do next. The fingerprint of a node
// that waits to be approved is only worth something if it is read on the machine itself, so this is the place where it is easy to read.
type status struct {
	*consoles
	version   string
	admission func() Admission // no page is shown of a node if nil
	addresses func() string    // of its network cards
	cards     func() []wait    // what these wait for; it may be nil

	started atomic.Bool // the runner was: the page is about the node from then on

	mu      sync.Mutex
	stages  stages
	timer   *time.Timer
	now     Admission     // as it was when somebody looked last
	decided bool          // what the datacenter decided is known
	waited  bool          // for that
	asked   time.Duration // when it began to wait, from the start of the kernel
	serves  bool
	wrong   string    // the last error of the runner
	ended   string    // how it ended; "" while it runs
	shown   condition // of the last page
	over    bool      // the machine is turned off

	hold     hold   // what failed last
	counted  bool   // the failure of this run of the runner was
	beside   beside // what does not work though the start goes on
	clock    string // what is wrong with it, "" if nothing is known to be
	services []serviceSeen
	more     []field // what the page has besides
}

// serviceSeen is how a service was last.
type serviceSeen struct {
	name, wrong string // "" while it runs
}

// condition is what a page is about.
type condition string

const (
	unknown condition = "" // there is nothing to show yet
	refused condition = "refused"
	held    condition = "held"
	stopped condition = "stopped"
	pending condition = "pending"
	serving condition = "serving"
	failing condition = "failing"
)

// condition says how the machine is. The caller holds mu.
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

// note takes a stage of the start.
func (s *status) note(r progress.Report) {
	if slices.Contains(ofNode, r.Stage) {
		s.started.Store(true)
		return
	}
	if s.started.Load() { // a lease that is renewed
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

// showIn has a page shown after a while, in the place of one that was to be shown. The caller holds mu.
func (s *status) showIn(wait time.Duration, show func()) {
	if s.timer != nil {
		s.timer.Stop()
	}
	if !s.over {
		s.timer = time.AfterFunc(wait, show)
	}
}

// textOf is the text of fields.
func textOf(fields []field) (lines []string) {
	for _, f := range fields {
		if f.value != "" {
			lines = append(lines, f.lines()...)
		}
	}
	return lines
}

// begin says that the runner was started.
func (s *status) begin() {
	s.started.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended, s.serves, s.decided, s.waited, s.counted = "", false, false, false, false
	s.stages.waits(progress.StageRunner, wait{"asks its supervisor to let it join", joinLimit, time.Now()})
	s.reached()
}

// end says how the runner has ended, and reports whether it failed in the same way the last time, too.
func (s *status) end(how string) (held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended, s.serves = how, false
	if !s.counted { // else its error was, which says more
		s.hold.failed(progress.Report{Stage: progress.StageRunner, Text: how}, "", s.since())
	}
	if s.admission != nil {
		s.now = s.admission()
	}
	s.later()
	return s.hold.held()
}

// service says that a service runs, or what is wrong with it.
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
		s.shown = unknown // so that the page is shown soon
		s.later()
	}
}

// also has the page show something more.
func (s *status) also(f field) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.value = progress.Text(f.value, progress.MaxText)
	s.more = append(s.more, f)
}

// clockIs says what is wrong with the clock, "" if it is right.
func (s *status) clockIs(wrong string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock = wrong
	if s.started.Load() {
		s.shown = unknown // so that the page is shown soon
		s.later()
	}
}

// serviceText says how the services are, "" if there are none. The caller holds mu.
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

// off shows nothing more: the machine is turned off.
func (s *status) off() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	if s.timer != nil {
		s.timer.Stop()
	}
}

// look is called after each line of the runner, with what the line means if that is known. It looks whether something has changed, and has the page
// shown below that line. It reports whether the line is a failure that is the same as the one before.
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

// lookForDecision looks what the datacenter has decided, until that is known. The caller holds mu.
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
			s.report(progress.Report{Stage: progress.StageWaits, Node: s.now.Name}) // without the fingerprint, which is to be read on the machine itself
		}
	default:
		s.decided = true
		if s.waited {
			text := fmt.Sprintf("the datacenter has %s this node", s.now.State)
			s.show(progress.StageApprove, text)
			s.report(progress.Report{Stage: progress.StageApprove, Text: text, Failed: s.now.State != writ.AdmissionApproved})
		}
	}
}

// later has the page shown once the runner is quiet. The caller holds mu.
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
	addresses := s.addressText() // before the lock: who tells a stage may hold the one of the network
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
		{"name", s.now.Name}, {"datacenter", s.now.Datacenter}, {"addresses", addresses}, {"fingerprint", s.now.Fingerprint}, {"version", s.version},
		{"services", s.serviceText()}, {"clock", progress.Text(s.clock, progress.MaxText)}, {"trouble", s.trouble()},
	}
	fields = append(fields, s.more...)
	switch s.shown {
	case pending:
		fields = append(fields, field{"waits", fmt.Sprintf("since %.0f s after its start: %s", s.asked.Seconds(), wait{limit: approvalLimit})})
	case serving:
		fields = append(fields, field{"started", s.stages.took()})
	case held, stopped, failing:
		fields = append(fields, s.hold.fields(s.since(), s.beside.next())...)
	}
	s.page(append(append(append(lines, textOf(fields)...), ""), next...)...)
	if s.shown == held || s.shown == failing { // the page says for how long
		s.showIn(calm, s.showPage)
	}
}

// words are the first line of the page, and what to do next. The caller holds mu.
func (s *status) words() (title string, next []string) {
	switch s.shown {
	case pending:
		return "This machine waits to be approved as a node.", slices.Concat(
			[]string{"An admin of the cluster approves it with", ""}, approval(s.now.Name, s.now.Fingerprint), []string{"", "Then it goes on by itself."},
		)
	case serving:
		return "This machine serves as a node.", []string{"Nothing is to be done here. For more: writ node show " + s.now.Name}
	case refused:
		return fmt.Sprintf("The datacenter has %s this node.", s.now.State), []string{"To use the machine again, give it another token and start it again."}
	case held:
		return "This machine is held: it failed twice in the same way.", []string{
			"It goes on by itself. To go on at once when that is done, turn it off with its power button, and on again.",
		}
	case stopped:
		return "The runner of this machine has ended.", []string{"It is started again by itself."}
	default:
		if s.serves {
			return "This machine is a node, and gets no work.", []string{"It tries again by itself."}
		}
		return "This machine cannot join its datacenter yet.", []string{"It tries again by itself."}
	}
}

// approval is the command with which an admin approves a node. If it is too long for the screen it has two lines, as a shell takes it.
func approval(name, fingerprint string) []string {
	command := "  writ node approve " + name + " "
	if len(command)+len(fingerprint) <= columns-pageIndent {
		return []string{command + fingerprint}
	}
	return []string{command + `\`, "    " + fingerprint}
}

// trouble is what is wrong, "" if nothing is known to be. The caller holds mu.
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

// name is what the datacenter calls the node, "" if that is not known.
func (s *status) name() string {
	if s.admission == nil {
		return ""
	}
	return s.admission().Name
}

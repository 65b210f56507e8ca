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
	// startEvery is how often the stages are shown again while the machine starts.
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

	started atomic.Bool // the runner was: the page is about the node from then on

	mu      sync.Mutex
	stages  []stageSeen
	timer   *time.Timer
	now     Admission // as it was when somebody looked last
	decided bool      // what the datacenter decided is known
	waited  bool      // for that
	serves  bool
	wrong   string    // the last error of the runner
	ended   string    // how it ended; "" while it runs
	shown   condition // of the last page
	over    bool      // the machine is turned off

	services []serviceSeen
}

// serviceSeen is how a service was last.
type serviceSeen struct {
	name, wrong string // "" while it runs
}

// stageSeen is a stage of the start, as it was told last.
type stageSeen struct {
	progress.Report
	at time.Duration
}

// condition is what a page is about.
type condition string

const (
	unknown condition = "" // there is nothing to show yet
	refused condition = "refused"
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
	case s.ended != "":
		return stopped
	case s.now.State == writ.AdmissionPending:
		return pending
	case s.serves:
		return serving
	case s.wrong != "":
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
	s.stages = slices.DeleteFunc(s.stages, func(seen stageSeen) bool { return seen.Stage == r.Stage })
	s.stages = append(s.stages, stageSeen{r.Clean(), s.since()})
	if s.timer == nil {
		s.timer = time.AfterFunc(startEvery, s.showStages)
	}
}

// showStages shows how far the machine is, if it still starts.
func (s *status) showStages() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || s.started.Load() {
		return
	}
	lines := []string{"This machine starts, and is no node yet.", ""}
	for _, seen := range s.stages {
		text := seen.Text
		if seen.Failed {
			text = "error: " + text
		}
		lines = append(lines, fmt.Sprintf("  %-8s %5.0f s ago  %s", seen.Stage, (s.since()-seen.at).Seconds(), text))
	}
	s.page(append(lines, "", "The last line says what it did last, or what it waits for.")...)
	s.timer.Reset(startEvery)
}

// begin says that the runner was started.
func (s *status) begin() {
	s.started.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended, s.serves, s.decided, s.waited = "", false, false, false
}

// end says how the runner has ended.
func (s *status) end(how string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended, s.serves = how, false
	if s.admission != nil {
		s.now = s.admission()
	}
	s.later()
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
// shown below that line.
func (s *status) look(meaning progress.Report, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || s.admission == nil {
		return
	}
	switch {
	case known && meaning.Failed:
		s.wrong = meaning.Text
	case known:
		s.serves, s.wrong = true, ""
	}
	s.lookForDecision()
	s.later()
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
			s.waited, s.wrong = true, ""
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
	if s.timer != nil {
		s.timer.Stop()
	}
	s.timer = time.AfterFunc(wait, s.showPage)
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
	for _, field := range []struct{ name, value string }{
		{"name", s.now.Name}, {"datacenter", s.now.Datacenter}, {"addresses", addresses}, {"fingerprint", s.now.Fingerprint}, {"version", s.version},
		{"services", s.serviceText()}, {"trouble", s.trouble()},
	} {
		if field.value != "" {
			lines = append(lines, fmt.Sprintf("  %-11s  %s", field.name, field.value))
		}
	}
	s.page(append(append(lines, ""), next...)...)
}

// words are the first line of the page, and what to do next. The caller holds mu.
func (s *status) words() (title string, next []string) {
	switch s.shown {
	case pending:
		return "This machine waits to be approved as a node.", []string{
			"An admin of the cluster approves it with", "", "  writ node approve " + s.now.Name + " " + s.now.Fingerprint, "", "Then it goes on by itself.",
		}
	case serving:
		return "This machine serves as a node.", []string{"Nothing is to be done here. For more: writ node show " + s.now.Name}
	case refused:
		return fmt.Sprintf("The datacenter has %s this node.", s.now.State), []string{"To use the machine again, give it another token and start it again."}
	case stopped:
		return "The runner of this machine has ended.", []string{"It is started again by itself. The log above has the reason."}
	default:
		return "This machine cannot join its datacenter yet.", []string{
			"It tries again by itself. Look whether the supervisor runs, and whether this network reaches it.",
		}
	}
}

// trouble is what is wrong, "" if nothing is known to be. The caller holds mu.
func (s *status) trouble() string {
	var all []string
	for _, text := range []string{s.ended, s.wrong} {
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

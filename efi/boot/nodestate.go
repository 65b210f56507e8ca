package boot

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"writ"
	"writ/efi/progress"
)

// Admission is the runner's state in the datacenter.
type Admission struct {
	State             writ.Admission // "" before it has reached its supervisor
	Name, Fingerprint string         // the node's name and the fingerprint of its key
	Datacenter        string         // "" if unknown
}

// nodeState is the state of the node that pages show.
type nodeState struct {
	admission func() Admission // returns the current state; nil if no page about the node is shown

	now      Admission     // latest state
	decided  bool          // whether the decision of the datacenter is known
	waited   bool          // whether the node waited for the decision
	asked    time.Duration // when the node began to wait, from the start of the kernel
	serves   bool
	wrong    string // last error of the runner
	ended    string // how the runner exited; "" while it runs
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

// condition is the state of the node that a page is about.
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

// refresh gets the latest admission state.
func (n *nodeState) refresh() {
	if n.admission != nil {
		n.now = n.admission()
	}
}

// condition returns the current condition.
func (n *nodeState) condition() condition {
	switch {
	case n.admission == nil:
		return unknown
	case n.now.State == writ.AdmissionRejected || n.now.State == writ.AdmissionRemoved:
		return refused
	case n.hold.held():
		return held
	case n.ended != "":
		return stopped
	case n.now.State == writ.AdmissionPending:
		return pending
	case n.serves && n.wrong == "":
		return serving
	case n.wrong != "" || len(n.beside) > 0:
		return failing
	}
	return unknown
}

// begin records that the runner was started.
func (n *nodeState) begin() {
	n.ended, n.serves, n.decided, n.waited, n.counted = "", false, false, false, false
}

// end records how the runner exited.
func (n *nodeState) end(how string, at time.Duration) {
	n.ended, n.serves = how, false
	if !n.counted { // otherwise an error of the runner was counted, which is more specific
		n.hold.failed(progress.Report{Stage: progress.StageRunner, Text: how}, "", at)
	}
}

// look applies the report that was parsed from a line of the runner. It returns true if the line reports the same
// failure again, so that the stage is held.
func (n *nodeState) look(r progress.Report, at time.Duration) (again bool) {
	switch {
	case r.Text == "" && r.Next != "":
		n.hold.next = r.Next
	case r.Failed:
		n.wrong, n.counted = r.Text, true
		n.hold.failed(r, "", at)
		return n.hold.held()
	default:
		n.serves, n.wrong, n.beside = true, "", nil
		n.hold.over(r)
	}
	return false
}

// service records the state of a service. wrong is "" while the service runs.
func (n *nodeState) service(name, wrong string) {
	i := slices.IndexFunc(n.services, func(seen serviceSeen) bool { return seen.name == name })
	if i < 0 {
		i = len(n.services)
		n.services = append(n.services, serviceSeen{name: name})
	}
	n.services[i].wrong = wrong
}

// also adds a field to the page.
func (n *nodeState) also(name, value string) {
	n.more = append(n.more, field{name, progress.Text(value, progress.MaxText)})
}

// serviceText formats the states of the services.
func (n *nodeState) serviceText() string {
	var all []string
	for _, seen := range n.services {
		text := seen.name + " runs"
		if seen.wrong != "" {
			text = seen.name + " " + seen.wrong
		}
		all = append(all, progress.Text(text, progress.MaxText))
	}
	return strings.Join(all, "; ")
}

// fields returns the fields that every page has.
func (n *nodeState) fields(addresses, version string) []field {
	return append([]field{
		{"name", n.now.Name}, {"datacenter", n.now.Datacenter}, {"addresses", addresses},
		{"fingerprint", n.now.Fingerprint}, {"version", version},
		{"services", n.serviceText()}, {"clock", progress.Text(n.clock, progress.MaxText)}, {"trouble", n.trouble()},
	}, n.more...)
}

// details returns the fields of a page about a condition.
func (n *nodeState) details(shown condition, now time.Duration, start stages) []field {
	switch shown {
	case pending:
		return []field{{
			"waits", fmt.Sprintf("since %.0f s after its start: %s", n.asked.Seconds(), progress.Wait{Limit: approvalLimit}),
		}}
	case serving:
		return []field{{"started", start.took()}}
	case held, stopped, failing:
		return n.hold.fields(now, n.beside.next())
	}
	return nil
}

// words returns the title of the page and the next steps.
func (n *nodeState) words(shown condition) (title string, next []string) {
	switch shown {
	case pending:
		return "This machine waits for approval as a node.", slices.Concat(
			[]string{"An admin of the cluster approves it with", ""}, approval(n.now.Name, n.now.Fingerprint),
			[]string{"", "Then it continues by itself."},
		)
	case serving:
		return "This machine serves as a node.", []string{"No action is needed. For more: writ node show " + n.now.Name}
	case refused:
		return fmt.Sprintf("The datacenter has %s this node.",
			n.now.State), []string{"To use the machine again, give it another token and start it again."}
	case held:
		return "This machine is held: it failed twice in the same way.", []string{
			"It retries by itself. To retry at once when that is done, turn it off and on with its power button.",
		}
	case stopped:
		return "The runner of this machine has ended.", []string{"It is started again by itself."}
	default:
		if n.serves {
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

// trouble returns the current problem, "" if none is known.
func (n *nodeState) trouble() string {
	var all []string
	for _, text := range []string{n.ended, n.beside.text(), n.wrong} {
		if text != "" {
			all = append(all, text)
		}
	}
	return progress.Text(strings.Join(all, ": "), progress.MaxText)
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

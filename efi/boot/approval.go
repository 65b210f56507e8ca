package boot

import (
	"fmt"
	"sync"
	"time"

	"writ"
	"writ/efi/progress"
)

// approval shows what a person types to approve the node, for as long as the node waits for that. The fingerprint is only worth something if it
// is read on the machine itself, so this is the place where it is easy to read.
type approval struct {
	*consoles
	admission func() Admission

	mu    sync.Mutex
	timer *time.Timer // shows the page; nil before the node waits
	done  bool        // what the datacenter decided is known, or the runner has ended
}

// quiet is how long the runner says nothing before the page is shown, so that the page is the last thing on the screen.
const quiet = time.Second

// Admission is what the runner knows of its place in the datacenter.
type Admission struct {
	State             writ.Admission // "" if it has not reached its supervisor
	Name, Fingerprint string         // of the node, and of its key
}

// look looks whether something has changed. It is called after each line of the runner, which speaks when it begins to wait and when it goes on.
// Each line while the node waits brings the page again, below that line.
func (a *approval) look() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.done || a.admission == nil {
		return
	}
	switch state := a.admission().State; {
	case state == "":
	case state == writ.AdmissionPending && a.timer == nil:
		a.timer = time.AfterFunc(quiet, a.showPage)
		a.report(progress.Report{Stage: progress.StageWaits, Node: a.admission().Name}) // without the fingerprint, which is to be read on the machine itself
	case state == writ.AdmissionPending:
		a.timer.Reset(quiet)
	default:
		a.done = true
		if a.timer != nil {
			a.timer.Stop()
			text := fmt.Sprintf("the datacenter has %s this node", state)
			a.show(progress.StageApprove, text)
			a.report(progress.Report{Stage: progress.StageApprove, Text: text, Failed: state != writ.AdmissionApproved})
		}
	}
}

// showPage shows the page, if the node still waits.
func (a *approval) showPage() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.done {
		return
	}
	if now := a.admission(); now.State == writ.AdmissionPending {
		a.page("This machine waits to be approved as a node.", "",
			"  name         "+now.Name,
			"  fingerprint  "+now.Fingerprint, "",
			"An admin of the cluster approves it with", "",
			"  writ node approve "+now.Name+" "+now.Fingerprint, "",
			"Then it goes on by itself.")
	}
}

// name is what the datacenter calls the node, "" if that is not known.
func (a *approval) name() string {
	if a.admission == nil {
		return ""
	}
	return a.admission().Name
}

// stop shows nothing more: the runner has ended.
func (a *approval) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.done = true
	if a.timer != nil {
		a.timer.Stop()
	}
}

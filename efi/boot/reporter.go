package boot

import (
	"time"

	"writ/efi/progress"
)

// reporter shows the progress and the failures of stages on the consoles and the page, and reports them to the boot
// server.
type reporter struct {
	*consoles
	status *status
}

// Waits shows the current wait of a stage.
func (r *reporter) Waits(stage, text string, l progress.Limit) {
	r.status.changeStages(func(all *stages) {
		all.waits(stage, progress.Wait{Text: text, Limit: l, Since: time.Now()})
	})
}

// clockIs shows the problem of the clock, "" if it is correct.
func (r *reporter) clockIs(wrong string) {
	r.status.update(func(n *nodeState) bool { n.clock = wrong; return true })
}

// also adds a field to the page.
func (r *reporter) also(name, value string) {
	r.status.update(func(n *nodeState) bool { n.also(name, value); return false })
}

// service shows the state of a service. wrong is "" while the service runs.
func (r *reporter) service(name, wrong string) {
	r.status.update(func(n *nodeState) bool { n.service(name, wrong); return true })
}

// NodeOnDisk returns the name of the node whose data is mounted, "" if unknown.
func (r *reporter) NodeOnDisk() string {
	if r.status.node.admission == nil {
		return ""
	}
	return r.status.node.admission().Name
}

// FailAgain reports that a stage failed and how it is retried. It returns true if the previous failure was the same.
// The stage is then held. The hold is reported once, and the status page shows it.
func (r *reporter) FailAgain(stage string, err error, goesOn string) (held bool) {
	failure := progress.Failure(stage, err)
	held, news := r.status.failed(failure, goesOn)
	switch {
	case held && news:
		r.Show(stage, "held: it failed twice in the same way; "+goesOn)
		failure.Held = true
		r.report(failure)
	case news:
		r.Fail(stage, err)
	}
	return held
}

// stop reports that the start cannot continue until a person acts.
func (r *reporter) stop(stage string, err error) {
	failure := progress.Failure(stage, err)
	failure.Held = true
	r.showFailure(stage, err)
	r.status.failed(failure, "not automatically: when the cause is removed, turn the machine off and on with its power button")
	r.report(failure)
}

// FailBeside reports a problem that does not stop the start. Pages and reports repeat the problem until the node
// serves.
func (r *reporter) FailBeside(stage string, err error) {
	r.Fail(stage, err)
	r.status.update(func(n *nodeState) bool { return n.beside.put(progress.Failure(stage, err)) })
}

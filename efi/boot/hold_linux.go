package boot

import "writ/efi/progress"

// FailAgain reports that a stage failed and how it is retried. It returns true if the previous failure was the same.
// The stage is then held: this is reported once, and the status page shows it from then on.
func (m *machine) FailAgain(stage string, err error, goesOn string) (held bool) {
	r := progress.Failure(stage, err)
	held, news := m.status.failed(r, goesOn)
	switch {
	case held && news:
		m.Show(stage, "held: it failed twice in the same way; "+goesOn)
		r.Held = true
		m.report(r)
	case news:
		m.Fail(stage, err)
	}
	return held
}

// stop reports that the start cannot continue until a person acts.
func (m *machine) stop(stage string, err error) {
	r := progress.Failure(stage, err)
	r.Held = true
	m.showFailure(stage, err)
	m.status.failed(r, "not by itself: when that is done, turn the machine off and on with its power button")
	m.report(r)
}

// FailBeside reports a problem that does not stop the start. Pages and reports repeat it until the node serves.
func (m *machine) FailBeside(stage string, err error) {
	m.Fail(stage, err)
	m.status.besides(progress.Failure(stage, err))
}

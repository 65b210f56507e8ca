package boot

// failAgain says that a stage failed, and how it goes on by itself. It reports whether the stage failed in the same way the last time, too: then it
// is held, which is said once. The page of the machine shows it from then on.
func (m *machine) failAgain(stage string, err error, goesOn string) (held bool) {
	r := failure(stage, err)
	held, news := m.status.failed(r, goesOn)
	switch {
	case held && news:
		m.show(stage, "held: it failed twice in the same way; "+goesOn)
		r.Held = true
		m.report(r)
	case news:
		m.fail(stage, err)
	}
	return held
}

// stop says that the start cannot go on at a stage until a person has done something.
func (m *machine) stop(stage string, err error) {
	r := failure(stage, err)
	r.Held = true
	m.showFailure(stage, err)
	m.status.failed(r, "not by itself: turn the machine off with its power button, and on again when that is done")
	m.report(r)
}

// failBeside says that something does not work though the start goes on. Pages and reports have it until the node serves.
func (m *machine) failBeside(stage string, err error) {
	m.fail(stage, err)
	m.status.besides(failure(stage, err))
}

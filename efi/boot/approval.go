package boot

import "writ"

// approval shows what a person types to approve the node, for as long as the node waits for that. The fingerprint is only worth something if it
// is read on the machine itself, so this is the place where it is easy to read.
type approval struct {
	*consoles
	admission func() Admission

	shown Admission // on the page
	done  bool      // what the datacenter decided is known
}

// Admission is what the runner knows of its place in the datacenter.
type Admission struct {
	State             writ.Admission // "" if it has not reached its supervisor
	Name, Fingerprint string         // of the node, and of its key
}

// look looks whether something has changed. It is called after each line of the runner, which speaks when it begins to wait and when it goes on.
func (a *approval) look() {
	if a.done || a.admission == nil {
		return
	}
	now := a.admission()
	switch now.State {
	case "":
	case writ.AdmissionPending:
		if now != a.shown {
			a.shown = now
			a.page("This machine waits to be approved as a node.", "",
				"  name         "+now.Name,
				"  fingerprint  "+now.Fingerprint, "",
				"An admin of the cluster approves it with", "",
				"  writ node approve "+now.Name+" "+now.Fingerprint, "",
				"Then it goes on by itself.")
		}
	default:
		a.done = true
		if a.shown.State != "" {
			a.stage("approve", "the datacenter has %s this node", now.State)
		}
	}
}

package decision

import (
	"fmt"

	"writ"
	"writ/identity"
	"writ/supervisor/journal"
)

// sameNode returns CONFLICT if the signer of a decision saw another node under this ID, or did not see the newest
// decision about the node.
func sameNode(n *journal.Node, seen identity.Seen) error {
	is := fmt.Sprintf("node %s has the id %s and the key %s; it is %s and %s, at revision %d",
		n.Name, n.ID, n.Key, n.Admission, n.Scheduling, n.Decisions)
	switch {
	case n.Name != seen.Name:
		return writ.Errorf(writ.CodeConflict, "the decision is about the node %s, and was signed for the id of another node",
			seen.Name).WithHint("%s", is)
	case n.Key != seen.Fingerprint:
		return writ.Errorf(writ.CodeConflict,
			"the decision is about the node %s with the key %s, and this node has another key",
			seen.Name, seen.Fingerprint).WithHint("%s", is)
	case int64(n.Decisions) != seen.Revision:
		return writ.Errorf(writ.CodeConflict, "the decision was made at revision %d of the node %s", seen.Revision,
			seen.Name).
			WithHint("%s; inspect it again, then decide", is)
	}
	return nil
}

// NameTaken returns the error for a node name that another node has.
func NameTaken(name string) error {
	return writ.Errorf(writ.CodeConflict, "the datacenter has a node %s already", name).
		WithHint("join with another --name, or remove that node first with `writ node remove %s`", name)
}

// applyTo changes a node as a statement requests, and describes the result. A change to the present state succeeds.
func applyTo(n *journal.Node, s *identity.Statement) (done string, err error) {
	if s.Decision == identity.DecisionLabel {
		return label(n, s)
	}
	if to, ok := admissions[s.Decision]; ok {
		err = admit(n, to)
		n.Gone = n.Gone || s.Decision == identity.DecisionLost
	} else {
		err = schedule(n, schedulings[s.Decision])
	}
	switch {
	case err != nil:
		return "", err
	case s.Decision == identity.DecisionLost:
		return fmt.Sprintf("node %s is removed, and the names of its resources are free", n.Name), nil
	case n.Admission != writ.AdmissionApproved:
		return fmt.Sprintf("node %s is %s", n.Name, n.Admission), nil
	}
	return fmt.Sprintf("node %s is %s and %s", n.Name, n.Admission, n.Scheduling), nil
}

// admissions maps decisions to the admission that they set.
var admissions = map[string]writ.Admission{
	"approve": writ.AdmissionApproved, "reject": writ.AdmissionRejected, "remove": writ.AdmissionRemoved,
	identity.DecisionLost: writ.AdmissionRemoved,
}

// schedulings maps decisions to the scheduling that they set.
var schedulings = map[string]writ.Scheduling{
	"cordon": writ.SchedulingCordoned, "uncordon": writ.SchedulingOpen, "drain": writ.SchedulingDraining,
}

// seeState is the hint for a decision that the state of a node excludes.
const seeState = "`writ node show %s` shows its state"

// admit changes the admission of a node.
func admit(n *journal.Node, to writ.Admission) error {
	if n.Admission != to && !writ.CanMove(writ.AdmissionMoves, n.Admission, to) {
		return writ.Errorf(writ.CodeConflict, "node %s is %s and cannot become %s", n.Name, n.Admission, to).
			WithHint(seeState, n.Name)
	}
	n.Admission = to
	return nil
}

// schedule changes the scheduling of a node. A drain of a drained node has no effect.
func schedule(n *journal.Node, to writ.Scheduling) error {
	if to == writ.SchedulingDraining && n.Scheduling == writ.SchedulingDrained {
		return nil
	}
	if n.Scheduling != to && !writ.CanMove(writ.SchedulingMoves, n.Scheduling, to) {
		return writ.Errorf(writ.CodeConflict, "node %s is %s and cannot become %s", n.Name, n.Scheduling, to).
			WithHint(seeState, n.Name)
	}
	n.Scheduling = to
	return nil
}

// label changes the labels of a node as a statement requests, and describes the result.
func label(n *journal.Node, s *identity.Statement) (done string, err error) {
	change, err := identity.ParseLabelChange(s)
	if err != nil {
		return "", err
	}
	after := change.Apply(n.Labels)
	if len(after) > writ.MaxLabels {
		return "", writ.Errorf(writ.CodeConflict, "node %s would have %d labels; it can have %d", n.Name, len(after),
			writ.MaxLabels).
			WithHint("remove one with `writ node label %s NAME-`", n.Name)
	}
	n.Labels = after
	if len(after) == 0 {
		return fmt.Sprintf("node %s has no labels", n.Name), nil
	}
	return fmt.Sprintf("node %s has %s", n.Name, writ.LabelsText(after)), nil
}

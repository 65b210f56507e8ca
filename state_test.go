package writ_test

import (
	"slices"
	"testing"

	"writ"
)

func TestMoveTables(t *testing.T) {
	checkMoves(t, "SubmissionState", writ.SubmissionMoves, writ.SubmissionWaiting)
	checkMoves(t, "RunState", writ.RunMoves, writ.RunAccepted)
	checkMoves(t, "CallState", writ.CallMoves, writ.CallPlanned)
	checkMoves(t, "Admission", writ.AdmissionMoves, writ.AdmissionPending)
	checkMoves(t, "Scheduling", writ.SchedulingMoves, writ.SchedulingOpen)
}

// checkMoves checks a table: every constant of the type is reachable from the first state, and every move is unique,
// leads to another state and has a cause.
func checkMoves[S ~string](t *testing.T, typeName string, table []writ.Move[S], first S) {
	t.Run(typeName, func(t *testing.T) {
		reached := []S{first}
		for i := 0; i < len(reached); i++ {
			for _, m := range table {
				if m.From == reached[i] && !slices.Contains(reached, m.To) {
					reached = append(reached, m.To)
				}
			}
		}
		states := constants(t, "state.go", typeName)
		for name, value := range states {
			if !slices.Contains(reached, S(value)) {
				t.Errorf("no way leads to %s", name)
			}
		}
		if len(reached) != len(states) {
			t.Errorf("the table reaches %v, the constants are %v", reached, states)
		}
		for i, m := range table {
			if m.From == m.To || m.Cause == "" {
				t.Errorf("%s → %s (%q) is not a valid move", m.From, m.To, m.Cause)
			}
			if writ.CanMove(table[:i], m.From, m.To) {
				t.Errorf("%s → %s appears twice", m.From, m.To)
			}
		}
	})
}

func TestForbiddenMoves(t *testing.T) {
	for _, tt := range []struct {
		name string
		can  bool
	}{
		{"a succeeded run runs again", writ.CanMove(writ.RunMoves, writ.RunSucceeded, writ.RunRunning)},
		{"a cancelled run is resumed", writ.CanMove(writ.RunMoves, writ.RunCancelled, writ.RunRunning)},
		{"an expired run is resumed", writ.CanMove(writ.RunMoves, writ.RunExpired, writ.RunRunning)},
		{"a run succeeds before it ran", writ.CanMove(writ.RunMoves, writ.RunAccepted, writ.RunSucceeded)},
		{"a result is taken back", writ.CanMove(writ.CallMoves, writ.CallSucceeded, writ.CallQueued)},
		{"a failed call is sent without a new attempt", writ.CanMove(writ.CallMoves, writ.CallFailed, writ.CallQueued)},
		{"a refused submission is delivered", writ.CanMove(writ.SubmissionMoves, writ.SubmissionRefused, writ.SubmissionDelivered)},
		{"a removed node comes back", writ.CanMove(writ.AdmissionMoves, writ.AdmissionRemoved, writ.AdmissionApproved)},
		{"a rejected node is approved", writ.CanMove(writ.AdmissionMoves, writ.AdmissionRejected, writ.AdmissionApproved)},
		{"a drained node drains", writ.CanMove(writ.SchedulingMoves, writ.SchedulingDrained, writ.SchedulingDraining)},
		{"a state moves to itself", writ.CanMove(writ.RunMoves, writ.RunRunning, writ.RunRunning)},
	} {
		if tt.can {
			t.Error(tt.name)
		}
	}
}

// An ended state changes only by a resume or the next attempt.
func TestEndedStates(t *testing.T) {
	for name, value := range constants(t, "state.go", "RunState") {
		state := writ.RunState(value)
		var left bool
		for _, m := range writ.RunMoves {
			left = left || m.From == state && m.Cause != "a resume statement"
		}
		if state.Ended() == left {
			t.Errorf("%s: ended %v, but has moves %v", name, state.Ended(), left)
		}
	}
	for name, value := range constants(t, "state.go", "CallState") {
		state := writ.CallState(value)
		var left bool
		for _, m := range writ.CallMoves {
			left = left || m.From == state && m.To != writ.CallPlanned
		}
		if state.Ended() == left {
			t.Errorf("%s: ended %v, but has moves %v", name, state.Ended(), left)
		}
		if state.Sent() && state.Ended() {
			t.Errorf("%s is both out at a node and ended", name)
		}
	}
}

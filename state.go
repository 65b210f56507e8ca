package writ

import "slices"

// SubmissionState is the state of a submission at the coordinator.
type SubmissionState string

// RunState is the state of a run in its datacenter.
type RunState string

// CallState is the state of a call.
type CallState string

// Admission is whether a node may join its datacenter.
type Admission string

// Scheduling is whether an approved node may get new work.
type Scheduling string

// Liveness is derived from the age of a node's last beat. It is never stored.
type Liveness string

// The states. A state without an outgoing move in the tables below is final.
const (
	// SubmissionWaiting means that the datacenter is unreachable. The submission is kept until it expires.
	SubmissionWaiting   SubmissionState = "waiting"
	SubmissionDelivered SubmissionState = "delivered"
	SubmissionRefused   SubmissionState = "refused" // by the datacenter's supervisor
	SubmissionExpired   SubmissionState = "expired"

	RunAccepted  RunState = "accepted"
	RunRunning   RunState = "running"
	RunSucceeded RunState = "succeeded"
	RunFailed    RunState = "failed"
	RunCancelled RunState = "cancelled"
	RunExpired   RunState = "expired"

	CallPlanned   CallState = "planned" // recorded, not sent
	CallQueued    CallState = "queued"  // sent to its node
	CallRunning   CallState = "running" // reported as started by its node
	CallSucceeded CallState = "succeeded"
	CallFailed    CallState = "failed"
	CallCancelled CallState = "cancelled"
	CallExpired   CallState = "expired"

	AdmissionPending  Admission = "pending"
	AdmissionApproved Admission = "approved"
	AdmissionRejected Admission = "rejected"
	AdmissionRemoved  Admission = "removed"

	SchedulingOpen     Scheduling = "open"
	SchedulingCordoned Scheduling = "cordoned"
	SchedulingDraining Scheduling = "draining"
	SchedulingDrained  Scheduling = "drained"

	LivenessReady  Liveness = "ready"
	LivenessSilent Liveness = "silent" // no beat for 5 s, or the roster's value: no new work
	LivenessLost   Liveness = "lost"   // no beat for 60 s, or the roster's value

	// LivenessUnknown is set by coordinators only, for the nodes of a datacenter that is not connected.
	LivenessUnknown   Liveness = "unknown"
	LivenessForgotten Liveness = "forgotten" // set by coordinators only: the datacenter has no record of the node
)

// Move is a legal move of a state machine and its cause.
type Move[S ~string] struct {
	From, To S
	Cause    string
}

// The tables of legal moves. Stores check every change of a state, and docs/states.md is generated from the tables.
var (
	SubmissionMoves = []Move[SubmissionState]{
		{SubmissionWaiting, SubmissionDelivered, "the supervisor accepted it"},
		{SubmissionWaiting, SubmissionRefused, "the supervisor refused it"},
		{SubmissionWaiting, SubmissionExpired, "it passed `expires` before its datacenter returned"},
	}
	RunMoves = []Move[RunState]{
		{RunAccepted, RunRunning, "the first pass began"},
		{RunAccepted, RunCancelled, "a cancel statement, or the newest roster does not permit the run"},
		{RunAccepted, RunExpired, "its deadline passed before it began"},
		{RunAccepted, RunFailed, "the script cannot be evaluated"},
		{RunRunning, RunSucceeded, "the script and all its calls ended"},
		{RunRunning, RunFailed, "the script or an unhandled call failed"},
		{RunRunning, RunCancelled, "a cancel statement, or the newest roster does not permit the run"},
		{RunRunning, RunExpired, "its deadline passed"},
		{RunFailed, RunRunning, "a resume statement"},
	}
	CallMoves = []Move[CallState]{
		{CallPlanned, CallQueued, "its inputs are available and its node has capacity"},
		{CallPlanned, CallSucceeded, "the supervisor answered it itself"},
		{CallPlanned, CallFailed, "a dependency failed, or the supervisor cannot answer it"},
		{CallPlanned, CallCancelled, "the run ended before it was sent"},
		{CallPlanned, CallExpired, "the run's deadline passed"},
		{CallQueued, CallRunning, "its node reported it as active"},
		{CallQueued, CallSucceeded, "its result arrived before the report of its start"},
		{CallQueued, CallFailed, "its result arrived, or its node was lost"},
		{CallQueued, CallCancelled, "the run was cancelled"},
		{CallQueued, CallExpired, "its end-by passed"},
		{CallRunning, CallQueued, "the next delivery of the same attempt"},
		{CallRunning, CallSucceeded, "its result arrived"},
		{CallRunning, CallFailed, "its result arrived, or its node was lost"},
		{CallRunning, CallCancelled, "the run was cancelled"},
		{CallRunning, CallExpired, "its end-by passed"},
		{CallFailed, CallPlanned, "the next attempt after a retryable failure, or a resume"},
		{CallCancelled, CallPlanned, "a resume of the run, whose failure cancelled it"},
		{CallExpired, CallPlanned, "a resume of the run, which failed because of it"},
	}
	AdmissionMoves = []Move[Admission]{
		{AdmissionPending, AdmissionApproved, "an approve statement, or a token without manual approval"},
		{AdmissionPending, AdmissionRejected, "a reject statement"},
		{AdmissionPending, AdmissionRemoved, "a remove or lost statement"},
		{AdmissionApproved, AdmissionRemoved, "a remove or lost statement"},
		{AdmissionRejected, AdmissionRemoved, "a remove or lost statement"},
	}
	SchedulingMoves = []Move[Scheduling]{
		{SchedulingOpen, SchedulingCordoned, "a cordon statement"},
		{SchedulingCordoned, SchedulingOpen, "an uncordon statement"},
		{SchedulingOpen, SchedulingDraining, "a drain statement"},
		{SchedulingCordoned, SchedulingDraining, "a drain statement"},
		{SchedulingDraining, SchedulingDrained, "the node has no work left"},
		{SchedulingDraining, SchedulingOpen, "an uncordon statement"},
		{SchedulingDrained, SchedulingOpen, "an uncordon statement"},
	}
)

// CanMove reports whether the table allows a move between two states.
func CanMove[S ~string](table []Move[S], from, to S) bool {
	return slices.ContainsFunc(table, func(m Move[S]) bool { return m.From == from && m.To == to })
}

// Ended reports whether the run has ended. Only a resume can continue it.
func (s RunState) Ended() bool { return s != RunAccepted && s != RunRunning }

// Ended reports whether the call has an outcome. Only a retry or a resume can change it.
func (s CallState) Ended() bool {
	return s != CallPlanned && s != CallQueued && s != CallRunning
}

// Sent reports whether the call was sent to a node and has no outcome yet.
func (s CallState) Sent() bool { return s == CallQueued || s == CallRunning }

// Package queuetest is the conformance suite of package queue: every implementation has to pass it. It knows the promises of queue.Queue, and of an
// implementation only how to open, flush and cut it.
package queuetest

import (
	"testing"

	"writ/runner/queue"
)

// Transport is an implementation under examination. It begins empty.
type Transport interface {
	// Open returns the queue of another process at this transport. It is closed when the test ends, if not before.
	Open(t *testing.T) queue.Queue
	// Flush loses everything that the transport holds.
	Flush(t *testing.T)
	// Cut makes the transport unreachable for all processes; Restore ends this. What it holds stays.
	Cut(t *testing.T)
	Restore(t *testing.T)
	// Kill makes the transport unreachable, for good, for the process that has q: to the transport it is as if it had been killed.
	Kill(t *testing.T, q queue.Queue)
}

// Case is one promise.
type Case struct {
	Name string
	Run  func(t *testing.T, transport Transport)
}

// Cases returns all promises. Each wants a transport of its own.
func Cases() []Case {
	return []Case{
		{"TasksComeInOrder", tasksComeInOrder},
		{"TaskIsPushedOnce", taskIsPushedOnce},
		{"SlotsBoundTheHandlers", slotsBoundTheHandlers},
		{"NodesHaveQueuesOfTheirOwn", nodesHaveQueuesOfTheirOwn},
		{"PanicEndsOneTask", panicEndsOneTask},
		{"MissingTellsWhatIsHeld", missingTellsWhatIsHeld},
		{"WithdrawnTaskDoesNotRun", withdrawnTaskDoesNotRun},
		{"TakenTaskIsNotWithdrawn", takenTaskIsNotWithdrawn},
		{"ServeStopsWhenItsHandlersReturned", serveStopsWhenItsHandlersReturned},
		{"TaskOfADeadProcessComesAgain", taskOfADeadProcessComesAgain},
		{"TaskHandledWhileAwayIsNotHandledAgain", taskHandledWhileAwayIsNotHandledAgain},
		{"ServeBeginsWithoutTransport", serveBeginsWithoutTransport},
		{"MessagesComeInOrderUntilAcknowledged", messagesComeInOrderUntilAcknowledged},
		{"ReceiveTakesAHundredAtMost", receiveTakesAHundredAtMost},
		{"ReceiveWaits", receiveWaits},
		{"GenerationIsLostWithEverything", generationIsLostWithEverything},
		{"WorkGoesOnAfterFlush", workGoesOnAfterFlush},
		{"WorkGoesOnAfterAbsence", workGoesOnAfterAbsence},
	}
}

// Run examines an implementation in real time. start returns a new transport, which the test's cleanup ends.
func Run(t *testing.T, start func(t *testing.T) Transport) {
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) { c.Run(t, start(t)) })
	}
}

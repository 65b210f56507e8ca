// Package queuetest is the conformance suite for implementations of package queue. It depends only on queue.Queue and
// on Transport, which opens, flushes and cuts a transport.
package queuetest

import (
	"testing"

	"writ/runner/queue"
)

// Transport is an implementation under test. It is initially empty.
type Transport interface {
	// Open returns the queue of a further process at this transport. The queue is closed when the test ends, if not
	// before.
	Open(t *testing.T) queue.Queue
	// Flush deletes all data of the transport.
	Flush(t *testing.T)
	// Cut makes the transport unreachable for all processes until Restore. Its data stays.
	Cut(t *testing.T)
	Restore(t *testing.T)
	// Kill makes the transport permanently unreachable for the process of q, as if the process had been killed.
	Kill(t *testing.T, q queue.Queue)
}

// Case is the test of one promise.
type Case struct {
	Name string
	Run  func(t *testing.T, transport Transport)
}

// Cases returns all cases. Each needs its own transport.
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

// Run tests an implementation in real time. start returns a new transport and must register its cleanup with t.
func Run(t *testing.T, start func(t *testing.T) Transport) {
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) { c.Run(t, start(t)) })
	}
}

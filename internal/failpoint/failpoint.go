// Package failpoint lets a test end this process exactly where a promise could break: before, during or after a write
// or send. It exists only in programs built with the tag failpoints; otherwise every call is an empty function that
// leaves no trace. It contains the names of the places, but does not depend on the written data.
//
// A place is named where a write or send starts, with At(ctx, JobStarted), and passed to the code that performs it: the
// commit of a store, the commands to Redis, the frames of a link. The environment determines the effect:
//
//	WRIT_FAILPOINT=node/finished:after          after a result is on disk, before it is sent
//	WRIT_FAILPOINT=queue/results:torn:3         in the middle of the third message with results
//	WRIT_FAILPOINT=node/finished:fail;node/probed:before
//
// Steps of drivers have names that need no declaration: step/MODULE/NAME. With steps:FILE the process ends before each
// step that is not in the file yet, and adds the step to the file. If a process is restarted with the same plan until
// it no longer ends, it has ended once before every step. This includes steps that only a restarted process reaches.
package failpoint

// Variable is the environment variable with the plan.
const Variable = "WRIT_FAILPOINT"

// Prefixes of the part of a plan about all steps of drivers. The path of a file follows.
const (
	Steps = "steps" // ends the process before each step that is missing in the file
	Noted = "noted" // only adds the steps to the file
)

// Mode is the time and effect of a failpoint.
type Mode string

// The modes. All except Fail end the process with SIGKILL.
const (
	Before Mode = "before" // before the write or send
	Torn   Mode = "torn"   // before the commit of a transaction, or after half of a file or message
	After  Mode = "after"  // after the write or send, before it is reported
	Fail   Mode = "fail"   // the process continues, but the write returns ENOSPC
)

// Kind is the kind of write or send at a place.
type Kind string

// The kinds.
const (
	Commit Kind = "commit" // a change in a transaction of a store
	// File is a new file that is written beside the current file and then replaces it, or a line appended to a file.
	File   Kind = "file"
	Send   Kind = "send"   // bytes to another process
	Answer Kind = "answer" // bytes to a waiting client, which does not repeat its request after a complete answer
	Move   Kind = "move"   // an atomic operation, such as the removal of a file
)

// Modes returns the modes of places of this kind.
func (k Kind) Modes() []Mode {
	switch k {
	case Commit, File:
		return []Mode{Before, Torn, After, Fail}
	case Send:
		return []Mode{Before, Torn, After}
	case Answer:
		return []Mode{Before, Torn}
	default:
		return []Mode{Before, After}
	}
}

// Point is the name of a place.
type Point string

// Place describes a point.
type Place struct {
	Point Point
	Kind  Kind
	// Functions is the number of functions that name the point, or 0 for the usual number, which is 1. A point without
	// a constant is derived from the name of a file or the type of a frame.
	Functions int
	Event     string // a sentence about the write, send or answer
	files     string // for kind File: the pattern of file names
}

// Find returns the place of a point.
func Find(p Point) (Place, bool) {
	for _, place := range Places {
		if place.Point == p {
			return place, true
		}
	}
	return Place{}, false
}

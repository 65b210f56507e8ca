// Package failpoint lets a test end this process at exactly the place where a promise could break: before something is written or sent,
// in the middle of it, or right after it and before anybody is told. It is there only in a program that was built with the tag
// failpoints; without it every call is an empty function that leaves no trace. It knows how a process dies, and the names of the places; it
// must not know what is written there.
//
// A place is named where a write or send begins, At(ctx, JobStarted), and carried to the few spots that do it: the commit of a store, the
// commands to Redis, the frames of a link. What becomes of the process is said by its environment:
//
//	WRIT_FAILPOINT=node/finished:after          when a result is on disk, and nobody knows it yet
//	WRIT_FAILPOINT=queue/results:torn:3         in the middle of the third message with results
//	WRIT_FAILPOINT=node/finished:fail;node/probed:before
//
// Steps of drivers have names of their own that need no declaration: step/MODULE/NAME. With steps:FILE the process ends before each step that
// is not in the file yet, and is in it then: one that is started again with the same plan until it does not end any more has ended once
// before every step that there is, also before those that only somebody takes who goes on after an end.
package failpoint

// Variable is the environment variable that says where a process ends.
const Variable = "WRIT_FAILPOINT"

// What the part of a plan begins with that is about all steps of drivers; the path of a file follows.
const (
	Steps = "steps" // the process ends before each that the file does not have
	Noted = "noted" // the process lives, and the file gets them
)

// Mode says when a process ends at a place.
type Mode string

// The modes. All of them but Fail end the process with SIGKILL.
const (
	Before Mode = "before" // nothing of it is written or sent
	Torn   Mode = "torn"   // a transaction before its commit; half of a file; half of the bytes that go out
	After  Mode = "after"  // it is on disk or sent, and nobody is told
	Fail   Mode = "fail"   // the process lives, and is told that the disk is full
)

// Kind is what happens at a place.
type Kind string

// The kinds.
const (
	Commit Kind = "commit" // a change in a transaction of a store
	File   Kind = "file"   // a file is written beside the one that counts and takes its place, or grows by a line
	Send   Kind = "send"   // bytes to another process
	Answer Kind = "answer" // bytes to a client that waits for them; who has them in full asks nothing more
	Move   Kind = "move"   // one step of the system, which is done or not
)

// Modes returns the modes that a place of this kind has.
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

// Place is what is known of a point.
type Place struct {
	Point Point
	Kind  Kind
	// Functions counts the functions in which the point is named, if they are not one. The name of a file or the type of a frame names its
	// point without a constant.
	Functions int
	Says      string // what is written or sent there, in one sentence
	files     string // of kind File: the pattern of their names
}

// Find returns a place.
func Find(p Point) (Place, bool) {
	for _, place := range Places {
		if place.Point == p {
			return place, true
		}
	}
	return Place{}, false
}

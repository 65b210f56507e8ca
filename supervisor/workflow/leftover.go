package workflow

import (
	"writ"
)

// A call that was given up may have made its resource all the same: its node was lost, or its driver did not stop when its time was over.
// Nobody knows of that thing until the next call that makes one of this name finds it in its way. It is ours, by the uid that follows from
// the call that made it, and taken over.

// leftover is a resource that an earlier call left on a node: its node was lost, or its driver ignored its deadline. The
// next call that makes this name finds it. It is ours, because its UID follows from its call.
type leftover struct {
	uid        writ.UID
	run        writ.RunID
	deployment string // that the run made a revision of
	by         string // who left it, for people
}

package workflow

import (
	"writ"
)

// leftover is a resource that an earlier call left on a node, because the node was lost or its driver ignored its
// deadline. The next call that makes a resource of this name finds it. Its UID, which is derived from the earlier call,
// shows that it is ours, so the new call may take it over.
type leftover struct {
	uid        writ.UID
	run        writ.RunID
	deployment string // deployment of the earlier run
	by         string // description of the earlier call, for messages
}

package redisqueue

import "errors"

// Limits of a whole reply. Replies to writ are smaller, even in a datacenter of ten thousand nodes. go-redis allocates a
// list before it reads the entries, and recurses into nested lists.
const (
	maxTotal   = 64 << 20 // bytes
	maxEntries = 1 << 18  // of all lists
	maxDepth   = 32       // lists within lists
)

// errLargeReply is the error of a reply beyond the limits. The connection must be closed.
var errLargeReply = errors.New("a reply of Redis has more entries or bytes than writ reads: " +
	"someone else writes to the keys of this datacenter")

// replyTotal is the size of a reply, as far as it was read.
type replyTotal struct {
	bytes   int64 // copied for the client
	entries int64 // announced by lists that are copied
}

// addEntries adds the entries that a list announces.
func (t *replyTotal) addEntries(n int64) error {
	t.entries += n
	return t.check()
}

func (t *replyTotal) check() error {
	if t.bytes > maxTotal || t.entries > maxEntries {
		return errLargeReply
	}
	return nil
}

package supervisor

import (
	"sync"

	"writ/supervisor/program"

	"writ"
)

// ofAnother returns the error of a message in which a node speaks for another node.
func ofAnother(node writ.NodeID) error {
	return writ.Errorf(writ.CodeBadRequest, "it is about the node %q", node)
}

// tooOften returns the error of a message that exceeds the rate limit of its kind.
func tooOften(format string, args ...any) error {
	return writ.Errorf(writ.CodeRateLimited, format, args...)
}

// maxRefused limits the refused texts in memory.
const maxRefused = 1 << 14

// refusedTexts remembers texts, with their signatures, that were refused for good. What the answer was is in the
// journal.
type refusedTexts struct {
	mu    sync.Mutex
	texts map[program.ShortDigest]bool
}

func newRefusedTexts() *refusedTexts { return &refusedTexts{texts: make(map[program.ShortDigest]bool)} }

func (r *refusedTexts) has(signed program.ShortDigest) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.texts[signed]
}

func (r *refusedTexts) put(signed program.ShortDigest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.texts) >= maxRefused {
		clear(r.texts)
	}
	r.texts[signed] = true
}

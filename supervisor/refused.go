package supervisor

import (
	"sync"

	"writ/supervisor/program"
)

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

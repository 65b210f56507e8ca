package answers

import (
	"context"
	"encoding/json"
	"sync"

	"writ"
	"writ/supervisor/journal"
	"writ/supervisor/program"
)

// maxRefused limits the refused texts in memory.
const maxRefused = 1 << 14

// refusedTexts remembers which signed texts were refused. The journal has their refusals.
type refusedTexts struct {
	mu    sync.Mutex
	texts map[program.ShortDigest]bool
}

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

// RefusedAgain returns the stored refusal of a signed text as a RefusedBefore, without verifying the signature again.
// It returns nil if the text is not known to be refused. signed is program.SignedDigestOf the text.
func (s *Store) RefusedAgain(ctx context.Context, text writ.Digest, signed program.ShortDigest) error {
	if !s.refused.has(signed) {
		return nil
	}
	if refused := s.Refusal(ctx, text); refused != nil {
		return RefusedBefore{refused}
	}
	return nil
}

// Refusal returns the stored refusal of a text. It returns nil for a text without a refusal.
func (s *Store) Refusal(ctx context.Context, text writ.Digest) error {
	refused, err := journal.Query(ctx, s.Journal, func(tx *journal.Tx) (*writ.Error, error) { return refusalOf(tx, text) })
	if refused == nil || err != nil {
		return err
	}
	return refused
}

// refusalOf loads the stored refusal of a text. It returns nil for a text without a refusal.
func refusalOf(tx *journal.Tx, text writ.Digest) (*writ.Error, error) {
	body, err := tx.Refusal(text)
	if body == nil || err != nil {
		return nil, err
	}
	refused := new(writ.Error)
	return refused, json.Unmarshal(body, refused)
}

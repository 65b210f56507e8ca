package chain

import (
	"slices"

	"writ"
)

// Milestone bounds the versions that one link may skip: every version divisible by it is a waypoint.
const Milestone = 4096

// History returns the history of a version. digests lists the digests of the versions before it, oldest first, and
// history is the history of the oldest of these versions. A history is a hash chain over the digests of all earlier
// versions, so it proves them without their texts.
func History(history writ.Digest, digests ...writ.Digest) writ.Digest {
	for _, digest := range digests {
		history = writ.DigestOf(slices.Concat([]byte("writ-roster-history-v1\x00"), history[:], digest[:]))
	}
	return history
}

//go:build checksums

package supervisor_test

import "writ/identity/envelope"

// checksumsOnly says that envelopes cost nothing, so that there is time for more.
const checksumsOnly = true

// countEnvelopes returns how many envelopes were made and opened.
func countEnvelopes() (made, opened int64) { return envelope.Made.Load(), envelope.Opened.Load() }

//go:build checksums

package supervisor_test

import "writ/identity/envelope"

// checksumsOnly reports that envelopes have checksums instead of signatures. They cost almost no time, so tests may do
// more work.
const checksumsOnly = true

// countEnvelopes returns the number of envelopes signed and opened.
func countEnvelopes() (made, opened int64) { return envelope.Made.Load(), envelope.Opened.Load() }

//go:build !checksums

package supervisor_test

const checksumsOnly = false

func countEnvelopes() (made, opened int64) { return 0, 0 }

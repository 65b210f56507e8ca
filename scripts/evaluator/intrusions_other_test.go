//go:build !linux

package evaluator_test

// intrusions are what children are kept from; there are none elsewhere, and so no children.
var intrusions map[string]intrusion

func pauper() int { return 1 }

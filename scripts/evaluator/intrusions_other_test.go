//go:build !linux

package evaluator_test

// intrusions is empty: other systems have no children.
var intrusions map[string]intrusion

func pauper() int { return 1 }

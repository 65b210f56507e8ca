//go:build race

package evaluator_test

// raceEnabled reports that this binary does not start under the memory limit.
const raceEnabled = true

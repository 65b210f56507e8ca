//go:build race

package evaluator_test

// raceEnabled says that this binary does not start under the limit on memory.
const raceEnabled = true

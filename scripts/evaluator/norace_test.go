//go:build !race

package evaluator_test

const raceEnabled = false

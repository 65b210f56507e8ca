package testenv

import (
	"flag"
	"math/rand/v2"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// fixedSeed is what the gate starts its random choices from: the same for everybody, so that a red run is red again.
const fixedSeed = 1

// Seed returns what a test starts its random choices from, and logs it. That is given if it is not 0, such as by a flag; otherwise it is
// fixed in the gate, and another one each time in the nightly tier.
func Seed(t testing.TB, given uint64) uint64 {
	t.Helper()
	seed := given
	switch {
	case given != 0:
	case IsNightly():
		seed = rand.Uint64N(1<<63) + 1
	default:
		seed = fixedSeed
	}
	t.Logf("seed %d", seed)
	return seed
}

// CheckProperty is rapid.Check with the seed of Seed. The flag -rapid.seed of the test gives another one.
func CheckProperty(t *testing.T, property func(*rapid.T)) {
	t.Helper()
	if f := flag.Lookup("rapid.seed"); f.Value.String() == f.DefValue && !IsNightly() {
		if err := f.Value.Set(strconv.Itoa(fixedSeed)); err != nil {
			t.Fatalf("set -rapid.seed: %v", err)
		}
	}
	rapid.Check(t, property)
}

package testenv

import (
	"flag"
	"math/rand/v2"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// fixedSeed is the seed of random choices in the gate. It is constant, so that a failure is reproducible.
const fixedSeed = 1

// Seed returns the seed of a test's random choices and logs it. A given seed, such as from a flag, is used unless it is
// 0. Otherwise the seed is fixed in the gate, and random in the nightly tier.
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

// CheckProperty calls rapid.Check, with a fixed seed in the gate and a random seed in the nightly tier. The test flag
// -rapid.seed overrides the seed.
func CheckProperty(t *testing.T, property func(*rapid.T)) {
	t.Helper()
	if f := flag.Lookup("rapid.seed"); f.Value.String() == f.DefValue && !IsNightly() {
		if err := f.Value.Set(strconv.Itoa(fixedSeed)); err != nil {
			t.Fatalf("set -rapid.seed: %v", err)
		}
	}
	rapid.Check(t, property)
}

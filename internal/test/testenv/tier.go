package testenv

import (
	"os"
	"testing"
)

// Tests have two tiers. The gate checks every promise once, with the cheapest test that would detect a violation. The
// nightly tier runs long tests. CONTRIBUTING.md describes both; `task nightly` runs everything.
const (
	// NightlyVar enables the nightly tier if it is not empty.
	NightlyVar = "WRIT_TEST_NIGHTLY"
	// LongVar enables the long forms of tests if it is not empty: hours for a single test. It includes the nightly
	// tier.
	LongVar = "WRIT_TEST_LONG"
)

// IsLong reports whether the long forms of tests are enabled.
func IsLong() bool { return os.Getenv(LongVar) != "" }

// IsNightly reports whether the nightly tier is enabled.
func IsNightly() bool { return os.Getenv(NightlyVar) != "" || IsLong() }

// Nightly moves a test to the nightly tier: the gate skips it. The text names the test that covers the promise in the
// gate.
func Nightly(t testing.TB, instead string) {
	t.Helper()
	if !IsNightly() {
		t.Skipf("nightly: %s (%s=1 runs it)", instead, NightlyVar)
	}
}

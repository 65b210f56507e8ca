package testenv

import (
	"os"
	"testing"
)

// Tests have two tiers. The gate proves every promise once, by the cheapest test that would notice its loss; the nightly tier tries what takes
// long. CONTRIBUTING.md says what belongs where, `task nightly` runs everything.
const (
	// NightlyVar asks for the nightly tier when it is not empty.
	NightlyVar = "WRIT_TEST_NIGHTLY"
	// LongVar asks for the long forms of tests when it is not empty: hours, for one test at a time. It includes the nightly tier.
	LongVar = "WRIT_TEST_LONG"
)

// IsLong reports whether the long forms of tests are asked for.
func IsLong() bool { return os.Getenv(LongVar) != "" }

// IsNightly reports whether the nightly tier is asked for.
func IsNightly() bool { return os.Getenv(NightlyVar) != "" || IsLong() }

// Nightly moves a test to the nightly tier: it is skipped in the gate. The text says what the gate keeps instead.
func Nightly(t testing.TB, instead string) {
	t.Helper()
	if !IsNightly() {
		t.Skipf("nightly: %s (%s=1 runs it)", instead, NightlyVar)
	}
}

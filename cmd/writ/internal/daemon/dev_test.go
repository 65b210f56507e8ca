package daemon

import (
	"testing"
	"time"
)

// TestADevelopmentClusterEndsWithinFiveSeconds adds up what it may wait for: jobs of all nodes at once, then requests of each of four supervisors
// and of the coordinator. What else there is to do when it ends takes milliseconds.
func TestADevelopmentClusterEndsWithinFiveSeconds(t *testing.T) {
	if most := devGrace + 5*devRequestGrace; most > 4500*time.Millisecond {
		t.Errorf("it may wait for %s", most)
	}
}

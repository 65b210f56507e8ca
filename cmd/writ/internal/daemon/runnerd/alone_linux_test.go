package runnerd

import (
	"testing"

	"writ/internal/test/testenv"
)

// alone runs a test again in a network namespace without another node, like testenv.OwnNetns: a node with host drivers
// may run on this machine. Users without the right to create a namespace run it here.
func alone(t *testing.T) bool {
	t.Helper()
	if testenv.Privileged() {
		return testenv.OwnNetns(t)
	}
	mark, err := claimHost()
	if err != nil {
		t.Skipf("only root gets a network namespace of its own: %v", err)
	}
	if err := mark.Close(); err != nil {
		t.Fatal(err)
	}
	return true
}

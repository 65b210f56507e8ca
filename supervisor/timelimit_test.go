package supervisor_test

import (
	"strings"
	"testing"
	"time"

	"writ"
)

// TestGraceExtendsTheTimeLimit creates, stops, starts and deletes a container with grace periods and a health check
// beyond the default time limits.
func TestGraceExtendsTheTimeLimit(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1")
		time.Sleep(2 * time.Second)
		_, calls := s.wantState(s.submit(`
image := import("image")
container := import("container")
i := image.fetch("i", {url: "https://images.example/i.tar", sha256: "`+strings.Repeat("0", 64)+`", format: "oci"})
web := container.create("web", {image: i, memory_mib: 16, grace_seconds: 1200,
  health: {tcp: 80, start_seconds: 900}})
container.stop(web, {grace_seconds: 1800})
container.start(web)
container.delete(web)
`), writ.RunSucceeded)
		for _, c := range calls {
			want := map[string]time.Duration{"container.create": 1200 + 900, "container.start": 900, "container.stop": 1800, "container.delete": 1200}[c.Operation]
			if got := c.EndBy.Sub(c.StartBy); got <= want*time.Second {
				t.Errorf("time limit of %s = %v, want more than %v", c.Operation, got, want*time.Second)
			}
		}
	})
}

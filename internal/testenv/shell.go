package testenv

import (
	"os/exec"
	"testing"
	"time"
)

// Empties runs lines for a shell, those that list returns, until it returns none. What fails is tried again, as the order of the lines may be one
// in which some only work when others have. Lines that never help fail the test, with what they say.
func Empties(t testing.TB, list func() []string) {
	t.Helper()
	var said []byte
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		lines := list()
		if len(lines) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%q do not help:\n%s", lines, said)
		}
		said = nil
		for _, line := range lines {
			out, _ := exec.Command("sh", "-c", line).CombinedOutput()
			said = append(said, out...)
		}
	}
}

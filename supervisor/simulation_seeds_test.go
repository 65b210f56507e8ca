package supervisor_test

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// life describes one datacenter to simulate.
type life struct {
	seed    uint64
	virtual time.Duration // duration of the faults
	nodes   int
}

// String formats a life as a line of the file of kept seeds.
func (l life) String() string { return fmt.Sprintf("%d %s %d", l.seed, l.virtual, l.nodes) }

// size returns the amount of simulation: duration times nodes.
func (l life) size() time.Duration { return l.virtual * time.Duration(l.nodes) }

// keptSeeds is the file of lives that found bugs. A seed determines the faults, but not the order of goroutines, so it
// does not always reproduce the failure.
const keptSeeds = "testdata/simulation.seeds"

// keptLives returns the lives in a file whose size is at most most.
func keptLives(t *testing.T, file string, most time.Duration) (kept []life) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(strings.NewReader(string(text)))
	for n := 1; lines.Scan(); n++ {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		var l life
		var virtual string
		if _, err := fmt.Sscan(lines.Text(), &l.seed, &virtual, &l.nodes); err == nil {
			l.virtual, err = time.ParseDuration(virtual)
			if err == nil && l.seed > 0 && l.size() > 0 {
				if l.size() <= most {
					kept = append(kept, l)
				}
				continue
			}
		}
		t.Errorf("%s:%d: %q is not a seed, virtual hours and nodes", file, n, lines.Text())
	}
	return kept
}

// keep adds a life to a file, unless the file has it.
func (l life) keep(t *testing.T, file string) {
	t.Helper()
	if slices.Contains(keptLives(t, file, l.size()), l) {
		return
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = fmt.Fprintln(f, l)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Errorf("store the seed: %v", err)
		return
	}
	t.Logf("the seed was added to %s: describe the failure there", file)
}

func TestFailedSeedIsKept(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "seeds")
	if err := os.WriteFile(file, []byte("# a word\n7 1h0m0s 10 it hung\n\n8 24h0m0s 50\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	found := life{9, 20 * time.Minute, 3}
	found.keep(t, file)
	found.keep(t, file)
	want := []life{{7, time.Hour, 10}, found}
	if got := keptLives(t, file, 10*time.Hour); !slices.Equal(got, want) {
		t.Errorf("kept lives = %v, want %v", got, want)
	}
	if got := keptLives(t, file, 50*24*time.Hour); len(got) != 3 {
		t.Errorf("kept lives = %v, want three", got)
	}
}

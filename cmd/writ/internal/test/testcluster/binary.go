package testcluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"writ/internal/test/testenv"
)

// built holds the programs of this process, by build tags.
var built struct {
	mu     sync.Mutex
	dir    string
	remove func() error
	by     map[string]string
	err    map[string]error
}

// BinaryVar is the prefix of environment variables that name a program built in advance. The build tags follow the
// prefix.
const BinaryVar = "WRIT_TEST_BINARY_"

// Binary returns the path of writ, built once per process with the given build tags. It is built without the race
// detector, because the evaluator's children do not start with it. Callers need a TestMain that calls RemoveBinaries.
func Binary(t testing.TB, tags ...string) string {
	t.Helper()
	built.mu.Lock()
	defer built.mu.Unlock()
	key := strings.Join(tags, ",")
	if path := os.Getenv(BinaryVar + key); path != "" {
		return path
	}
	if path := built.by[key]; path != "" {
		return path
	}
	if err := built.err[key]; err != nil {
		t.Fatal(err)
	}
	path, err := build(key)
	if err != nil {
		if built.err == nil {
			built.err = map[string]error{}
		}
		built.err[key] = err
		t.Fatal(err)
	}
	if built.by == nil {
		built.by = map[string]string{}
	}
	built.by[key] = path
	return path
}

func build(tags string) (string, error) {
	if built.dir == "" {
		dir, remove, err := testenv.MakeHome("testcluster")
		if err != nil {
			return "", err
		}
		built.dir, built.remove = dir, remove
	}
	path := filepath.Join(built.dir, "writ"+strings.ReplaceAll("-"+tags, ",", "-"))
	if out, err := exec.Command("go", "build", "-ldflags=-s -w", "-tags", tags, "-o", path, "writ/cmd/writ").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build writ with tags %q: %w\n%s", tags, err, out)
	}
	return path, nil
}

// RemoveBinaries removes the programs that Binary built.
func RemoveBinaries() error {
	built.mu.Lock()
	defer built.mu.Unlock()
	if built.dir == "" {
		return nil
	}
	err := built.remove()
	built.dir, built.by, built.err = "", nil, nil
	return err
}

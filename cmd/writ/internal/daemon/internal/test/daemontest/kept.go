// Package daemontest has helpers for the tests of daemons: listeners, a public authority, a node API, and checks of
// data directories.
package daemontest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"writ"
	"writ/cmd/writ/internal/daemon"
)

// KeptCase is a data directory with the names and contents of its files.
type KeptCase struct {
	File   daemon.KeptFile
	Has    map[string]string
	Missed bool // whether the daemon must miss File
}

// CheckKept checks each case.
func CheckKept(t *testing.T, cases ...KeptCase) {
	t.Helper()
	for _, tt := range cases {
		dir := t.TempDir()
		for name, text := range tt.Has {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		err := tt.File.Check(dir)
		if got := writ.CodeOf(err) == writ.CodeDataIncomplete; got != tt.Missed || err != nil != tt.Missed {
			t.Errorf("%s beside %v: %v", tt.File.Name, tt.Has, err)
		}
		e := writ.AsError(err)
		if tt.Missed && (!strings.Contains(e.Message, filepath.Join(dir, tt.File.Name)) || !strings.Contains(e.Hint, dir)) {
			t.Errorf("%s: %s; %s", tt.File.Name, e.Message, e.Hint)
		}
	}
}

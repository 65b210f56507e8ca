package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"writ"
)

// TestPlaceOfProfilesIsChecked checks that an unusable place of a profile is an error of usage that names the flag.
func TestPlaceOfProfilesIsChecked(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for flag, err := range map[string]error{
		"--profile": makeProfiles(file), "--cpuprofile": makeProfile(filepath.Join(file, "cpu.pprof")),
	} {
		if writ.CodeOf(err) != writ.CodeUsage || !strings.Contains(writ.AsError(err).Hint, flag) {
			t.Errorf("%s: %v", flag, err)
		}
	}
}

package testenv

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// askedTools matches the tools that a test file or a testscript names.
var askedTools = regexp.MustCompile(`testenv\.(?:Need|Has|Path)\((?:t, )?"([^"]+)"|\[!?tool:([^\]]+)\]`)

// A test of the nightly tier that needs a tool without a row would fail only there.
func TestEveryAskedToolHasARow(t *testing.T) {
	asked := 0
	err := filepath.WalkDir("../../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, ".txtar") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range askedTools.FindAllStringSubmatch(string(text), -1) {
			asked++
			name := m[1] + m[2] // one of the two is empty
			if !slices.ContainsFunc(Tools, func(tool Tool) bool { return tool.Name == name }) {
				t.Errorf("%s needs %s, which has no row in the table", path, name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if asked < 100 {
		t.Errorf("found %d uses of tools, want at least 100", asked)
	}
}

package client

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"writ"
)

func TestUnreadableScriptHasAFittingHint(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"one/web.tengo", "one/web_test.tengo", "many/a.tengo", "many/b.tengo", "many/c.tengo", "many/d.tengo", "none/x.txt"} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		"one":                                 "name the script in it: one/web.tengo",
		"many":                                "name one of its 4 scripts: many/a.tengo, many/b.tengo, many/c.tengo, …",
		"none/":                               "it has no script",
		"https://user:hunter2@x/y.tengo":      "download and read it first",
		"-":                                   "`writ check --stdin`",
		"one/wbe.tengo":                       `did you mean "one/web.tengo"?`,
		"one/web":                             `did you mean "one/web.tengo"?`,
		`.\one\web.tengo`:                     `did you mean "./one/web.tengo"?`,
		"missing/web.tengo":                   "give the path of an existing file",
		filepath.Join(t.TempDir(), "x.tengo"): "give the path of an existing file",
	} {
		_, err := ReadScript(path, nil)
		e := writ.AsError(err)
		if e == nil || e.Code != writ.CodeUsage || !strings.Contains(e.Hint, want) || strings.Contains(e.Error()+e.Hint, "hunter2") {
			t.Errorf("%s: %v, want the hint %q", path, err, want)
		}
	}
}

package main

import (
	"bytes"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// importers lists the packages of a release that import templates, each with the reason why the linker drops the
// templates.
var importers = map[string]string{
	"html/template":                                       "a package below names a type of it",
	"github.com/spf13/cast":                               "it names a type of html/template",
	"github.com/spf13/cobra":                              "a program may set templates of its help; writ sets none",
	"github.com/pressly/goose/v3":                         "it makes files of new migrations; writ only applies them",
	"github.com/containerd/containerd/v2/internal/fsview": "oci.WithUser and the like look at layers by it; sal/containerd finds users by itself",
}

// With text/template rendering, the linker keeps all exported methods of all types, which makes writ a fourth larger.
//
// Promise: Releases and CI: A released program does not import templates, which would make it a fourth larger.
// How: Pages are functions; a list names the packages that import templates, with the reason that keeps each out.
// Also: TestAReleaseOfThisSourceRunsInEachForm
func TestNoFurtherPackageOfAReleaseImportsTemplates(t *testing.T) {
	for _, p := range known {
		list := exec.CommandContext(t.Context(), "go", "list", "-tags", tags, "-deps", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./cmd/writ")
		list.Dir, list.Env, list.Stderr = "../..", append(os.Environ(), "GOOS="+p.OS, "GOARCH="+p.Arch, "CGO_ENABLED=0", "GOFLAGS="), os.Stderr
		text, err := list.Output()
		if err != nil {
			t.Fatal(err)
		}
		packages := 0
		for line := range strings.Lines(string(text)) {
			imports := strings.Fields(line)
			packages++
			if !slices.Contains(imports[1:], "text/template") && !slices.Contains(imports[1:], "html/template") {
				continue
			}
			if importers[imports[0]] == "" {
				t.Errorf("%s: %s imports templates; see docs/decisions/0053-pages-are-functions.md", p, imports[0])
			}
		}
		if packages < 500 {
			t.Errorf("%s: the program has only %d packages", p, packages)
		}
	}
}

// rendersNoTemplates checks the function names in a program, which stack traces need.
func rendersNoTemplates(t *testing.T, path string) {
	t.Helper()
	program, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(program, []byte("\x00writ/coord/dashboard/page.(*Page).HTML\x00")) {
		t.Error("the program does not name its functions")
	}
	if bytes.Contains(program, []byte("\x00text/template.(*state).evalField\x00")) {
		t.Error("the program renders templates; `go build -ldflags=-dumpdep` shows the path to text/template.(*state).evalField")
	}
}

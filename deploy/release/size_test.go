package main

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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

// A command starts in about 10 ms. Compiling the expressions of all packages would take half as long again.
func TestNoPackageCompilesExpressionsAtItsStart(t *testing.T) {
	list := exec.CommandContext(t.Context(), "go", "list", "-tags", tags, "-deps", "-json=ImportPath,Dir,GoFiles", "./cmd/writ")
	list.Dir, list.Env, list.Stderr = "../..", append(os.Environ(), "GOFLAGS="), os.Stderr
	text, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := 0
	for d := json.NewDecoder(bytes.NewReader(text)); d.More(); {
		var p struct {
			ImportPath, Dir string
			GoFiles         []string
		}
		if err := d.Decode(&p); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(p.ImportPath, "writ/") { // the root package has no helpers, so it cannot wait
			continue
		}
		packages++
		for _, name := range p.GoFiles {
			for _, at := range compiledAtStart(t, filepath.Join(p.Dir, name)) {
				t.Errorf("%s compiles an expression when writ starts; use writ/internal/lazyregexp", at)
			}
		}
	}
	if packages < 150 {
		t.Errorf("the program has only %d packages of writ", packages)
	}
}

// compiledAtStart returns the places in a Go file whose variables are initialized with a compiled regular expression.
func compiledAtStart(t *testing.T, path string) (places []token.Position) {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, declared := range file.Decls {
		variables, ok := declared.(*ast.GenDecl)
		if !ok || variables.Tok != token.VAR {
			continue
		}
		ast.Inspect(variables, func(n ast.Node) bool {
			if later, ok := n.(*ast.CallExpr); ok && strings.HasPrefix(name(later), "sync.Once") {
				return false
			}
			if call, ok := n.(*ast.CallExpr); ok && name(call) == "regexp.MustCompile" {
				places = append(places, files.Position(call.Pos()))
			}
			return true
		})
	}
	return places
}

// name returns the name of a called function of a package, such as "regexp.MustCompile", or "".
func name(call *ast.CallExpr) string {
	if s, ok := call.Fun.(*ast.SelectorExpr); ok {
		if pkg, ok := s.X.(*ast.Ident); ok {
			return pkg.Name + "." + s.Sel.Name
		}
	}
	return ""
}

// With symbols and templates, a program is almost twice as large.
func TestEverydayBuildHasNoSymbolsAndTemplates(t *testing.T) {
	tasks, err := os.ReadFile("../../Taskfile.yml")
	if err != nil {
		t.Fatal(err)
	}
	build := regexp.MustCompile(`(?m)^ +cmd: (go build .* -o bin/writ \./cmd/writ)$`).FindSubmatch(tasks)
	if build == nil {
		t.Fatal("the Taskfile has no command that builds bin/writ")
	}
	for _, flag := range []string{" -tags grpcnotrace ", " -ldflags='-s -w' "} {
		if !bytes.Contains(build[1], []byte(flag)) {
			t.Errorf("%s lacks%s", build[1], flag)
		}
	}
}

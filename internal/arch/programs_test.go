package arch_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// everywhere lists the programs that tests may start without testenv.Need: Go, the programs of a minimal Debian, and
// programs that the test itself provides.
var everywhere = []string{
	"go", "sh", "bash", "cat", "cp", "dd", "ldd", "losetup", "ls", "mount", "sha256sum", "sleep", "tail", "tar", "true", "unshare",
	"writ", // package testscript puts the test binary on PATH under this name
}

// A test that starts another program without testenv.Need fails on a machine without the program instead of being
// skipped.
func TestTestsAskForTheirPrograms(t *testing.T) {
	const root = "../.."
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root {
			return errOr(err, fs.SkipDir)
		}
		if filepath.Ext(path) != ".go" || filepath.Dir(path) == filepath.Join(root, "internal", "test", "testenv") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil || !ofTests(path, file) {
			return err
		}
		for _, program := range programsIn(file) {
			if !slices.Contains(everywhere, filepath.Base(program)) {
				t.Errorf("%s starts %s without asking for it: use testenv.Need", strings.TrimPrefix(path, root+"/"), program)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func errOr(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// ofTests reports whether a file is a test or test support.
func ofTests(path string, file *ast.File) bool {
	return strings.HasSuffix(path, "_test.go") ||
		slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"testing"` })
}

// programsIn returns the programs that a file passes as constants to functions of package exec.
func programsIn(file *ast.File) (all []string) {
	at := map[string]int{"Command": 0, "CommandContext": 1, "LookPath": 0}
	ast.Inspect(file, func(n ast.Node) bool {
		call, is := n.(*ast.CallExpr)
		if !is {
			return true
		}
		function, is := call.Fun.(*ast.SelectorExpr)
		if !is {
			return true
		}
		from, is := function.X.(*ast.Ident)
		i, known := at[function.Sel.Name]
		if !is || from.Name != "exec" || !known || len(call.Args) <= i {
			return true
		}
		if name, is := call.Args[i].(*ast.BasicLit); is && name.Kind == token.STRING {
			if program, err := strconv.Unquote(name.Value); err == nil {
				all = append(all, program)
			}
		}
		return true
	})
	return all
}

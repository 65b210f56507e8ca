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
// skipped. So does a subtest that asks for a program in the name of its parent.
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
		for _, function := range outerTests(file) {
			t.Errorf("%s: a function in a table calls testenv.%s with the t of its parent, so a subtest cannot be skipped",
				strings.TrimPrefix(path, root+"/"), function)
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

// outerTests returns the functions of testenv that functions in tables call with a t that is not their own parameter.
func outerTests(file *ast.File) (all []string) {
	inspect(file, func(table *ast.CompositeLit) bool {
		inspect(table, func(function *ast.FuncLit) bool {
			for _, parameter := range function.Type.Params.List {
				if slices.ContainsFunc(parameter.Names, func(name *ast.Ident) bool { return name.Name == "t" }) {
					return false
				}
			}
			inspect(function.Body, func(call *ast.CallExpr) bool {
				called, is := call.Fun.(*ast.SelectorExpr)
				if !is || len(call.Args) == 0 {
					return true
				}
				from, _ := called.X.(*ast.Ident)
				if first, is := call.Args[0].(*ast.Ident); is && first.Name == "t" && from != nil && from.Name == "testenv" {
					all = append(all, called.Sel.Name)
				}
				return true
			})
			return false
		})
		return false
	})
	return all
}

// inspect calls visit for each node of a type, and visits the nodes within it if visit returns true.
func inspect[N ast.Node](in ast.Node, visit func(N) bool) {
	ast.Inspect(in, func(n ast.Node) bool {
		if one, is := n.(N); is {
			return visit(one)
		}
		return true
	})
}

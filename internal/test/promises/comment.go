package promises

import (
	"bytes"
	"go/ast"
	"go/build"
	"io"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// fields lists the fields of a promise comment.
var fields = []string{"Promise", "How", "Subtest", "Also"}

// blocks returns the paragraphs of a comment that are promises.
func blocks(group *ast.CommentGroup) []string {
	var all []string
	for paragraph := range strings.SplitSeq(group.Text(), "\n\n") {
		if strings.HasPrefix(paragraph, "Promise:") {
			all = append(all, strings.TrimSpace(paragraph))
		}
	}
	return all
}

// parse splits a promise comment into its fields and joins their lines.
func parse(text string) map[string]string {
	values := map[string]string{}
	name := ""
	for line := range strings.SplitSeq(text, "\n") {
		for _, field := range fields {
			if rest, ok := strings.CutPrefix(line, field+":"); ok {
				name, line = field, rest
				break
			}
		}
		values[name] = strings.TrimSpace(values[name] + " " + strings.TrimSpace(line))
	}
	return values
}

// isTest reports whether the go command runs a function of a file as a test or fuzz test.
func isTest(file string, function *ast.FuncDecl) bool {
	if !strings.HasSuffix(file, "_test.go") || function.Recv != nil || function.Name.Name == "TestMain" {
		return false
	}
	for _, prefix := range []string{"Test", "Fuzz"} {
		rest, ok := strings.CutPrefix(function.Name.Name, prefix)
		first, _ := utf8.DecodeRuneInString(rest)
		if ok && (rest == "" || !unicode.IsLower(first)) {
			return true
		}
	}
	return false
}

// isNightly reports whether a statement of the test itself skips it outside of the nightly tier. A subtest that skips
// itself leaves the rest of its test in the gate.
func isNightly(function *ast.FuncDecl) bool {
	for _, statement := range function.Body.List {
		expression, ok := statement.(*ast.ExprStmt)
		if !ok {
			continue
		}
		call, ok := expression.X.(*ast.CallExpr)
		if !ok {
			continue
		}
		selector, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || selector.Sel.Name != "Nightly" {
			continue
		}
		if pkg, ok := selector.X.(*ast.Ident); ok && pkg.Name == "testenv" {
			return true
		}
	}
	return false
}

// isBuilt reports whether go test builds a file on Linux without further tags.
func isBuilt(name string, text []byte) (bool, error) {
	machine := build.Default
	machine.GOOS, machine.GOARCH, machine.BuildTags = "linux", "amd64", nil
	machine.OpenFile = func(string) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }
	return machine.MatchFile(path.Dir(name), path.Base(name))
}

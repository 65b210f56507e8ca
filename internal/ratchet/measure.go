// Package ratchet measures how readable the module's packages are and compares the figures with limits. A package that
// exceeds a limit needs an allowance in allowances.txt. Allowances may be lowered or removed, never raised.
//
// The figures are the methods of each type, the files of each package, lines over 120 columns, and constructions of
// English that make readers stop (Marked). Tests and generated files are not counted.
package ratchet

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxColumns is the width of a line in runes. A tab counts as one rune.
const maxColumns = 120

// Figures are the measurements of one directory. A directory without Go files has only documents.
type Figures struct {
	Files   int            // Go files
	Lines   int            // lines of Go
	Wide    int            // lines of Go over maxColumns
	Methods map[string]int // by type

	Comments, Messages, Documents Prose
}

// Prose counts the words of texts, and the constructions that Marked finds in the texts.
type Prose struct{ Words, Marked int }

func (p *Prose) add(text string) {
	p.Words += len(strings.Fields(text))
	p.Marked += len(Marked(text))
}

// Measure returns the figures of each directory of a module, by path; the root is ".".
func Measure(module fs.FS) (map[string]*Figures, error) {
	all := map[string]*Figures{}
	err := fs.WalkDir(module, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if base := entry.Name(); name != "." && (strings.HasPrefix(base, ".") || base == "testdata" || base == "vendor" || base == "node_modules") {
				return fs.SkipDir
			}
			return nil
		}
		source := strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go")
		if !source && !strings.HasSuffix(name, ".md") || entry.Name() == "CHANGELOG.md" {
			return nil
		}
		text, err := fs.ReadFile(module, name)
		if err != nil {
			return err
		}
		f := all[path.Dir(name)]
		if f == nil {
			f = &Figures{Methods: map[string]int{}}
			all[path.Dir(name)] = f
		}
		if !source {
			f.document(string(text))
			return nil
		}
		return f.source(name, text)
	})
	return all, err
}

// source adds a Go file. Generated files are skipped.
func (f *Figures) source(name string, text []byte) error {
	file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments)
	if err != nil {
		return err
	}
	if ast.IsGenerated(file) {
		return nil
	}
	f.Files++
	for line := range strings.Lines(string(text)) {
		f.Lines++
		if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > maxColumns {
			f.Wide++
		}
	}
	for _, group := range file.Comments {
		f.Comments.add(group.Text())
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.FuncDecl:
			if n.Recv != nil {
				f.Methods[receiver(n.Recv.List[0].Type)]++
			}
		case *ast.BasicLit:
			if n.Kind != token.STRING {
				break
			}
			if message, err := strconv.Unquote(n.Value); err == nil && len(strings.Fields(message)) >= minMessage {
				f.Messages.add(doNothing.ReplaceAllString(message, ""))
			}
		}
		return true
	})
	return nil
}

// minMessage is the minimum number of words of a message; shorter strings are not counted.
const minMessage = 4

func receiver(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.IndexListExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return ""
}

// document adds the prose of a page, without code.
func (f *Figures) document(text string) {
	fenced := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		} else if !fenced {
			f.Documents.add(inlineCode.ReplaceAllString(line, ""))
		}
	}
}

// Package gosource finds the functions and constants of this module in its syntax trees, so that tests can name code
// without its file or line. It reads every Go file of the program and ignores build constraints. It does not read
// tests, generated files or tools.
package gosource

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// File is one parsed source file.
type File struct {
	Folder string // path of the package in the module, with slashes; "." for the root package
	Path   string // path on this machine
	Text   []byte
	Syntax *ast.File
	set    *token.FileSet
}

// Module returns the root folder of the module that contains the working directory.
func Module() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no go.mod in %s or above", start)
		}
	}
}

// Load parses the program files in the folders of a module and below. Without folders, it parses the whole module.
func Load(root string, folders ...string) ([]*File, error) {
	if len(folders) == 0 {
		folders = []string{"."}
	}
	var all []*File
	for _, folder := range folders {
		top := filepath.Join(root, filepath.FromSlash(folder))
		err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && path != top && skipped(d.Name()):
				return fs.SkipDir
			case d.IsDir() || !isProgram(d.Name()):
				return nil
			}
			file, err := load(root, path)
			if err == nil {
				all = append(all, file)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

func skipped(folder string) bool {
	return strings.HasPrefix(folder, ".") || folder == "testdata" || folder == "tools"
}

func isProgram(name string) bool {
	return strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") && !strings.HasSuffix(name, ".gen.go")
}

func load(root, path string) (*File, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	syntax, err := parser.ParseFile(set, path, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	folder, err := filepath.Rel(root, filepath.Dir(path))
	return &File{Folder: filepath.ToSlash(folder), Path: path, Text: text, Syntax: syntax, set: set}, err
}

// At returns the path and line of a node, for a message.
func (f *File) At(n ast.Node) string {
	at := f.set.Position(n.Pos())
	return fmt.Sprintf("%s:%d", filepath.ToSlash(filepath.Join(f.Folder, filepath.Base(f.Path))), at.Line)
}

// Span returns the offsets of a node in the text.
func (f *File) Span(n ast.Node) (begin, end int) {
	return f.set.Position(n.Pos()).Offset, f.set.Position(n.End()).Offset
}

// Source returns the text of a node.
func (f *File) Source(n ast.Node) string {
	begin, end := f.Span(n)
	return string(f.Text[begin:end])
}

// Functions returns the functions and methods of a file that have a body.
func (f *File) Functions() (all []Function) {
	for _, decl := range f.Syntax.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok && fn.Body != nil {
			all = append(all, Function{Name: nameOf(fn), Decl: fn, File: f})
		}
	}
	return all
}

// Function is a function or method of the program.
type Function struct {
	Name string // "Function" or "Type.Method"
	Decl *ast.FuncDecl
	File *File
}

// String returns the name with its package: "supervisor.watcher.miss".
func (f Function) String() string { return f.File.Syntax.Name.Name + "." + f.Name }

// Directive returns the text after //NAME in the comment of a function: "the caller named it" for "//failpoint:none the
// caller named it".
func (f Function) Directive(name string) (text string, found bool) {
	if f.Decl.Doc == nil {
		return "", false
	}
	for _, line := range f.Decl.Doc.List {
		if rest, ok := strings.CutPrefix(line.Text, "//"+name); ok && (rest == "" || rest[0] == ' ') {
			return strings.TrimSpace(rest), true
		}
	}
	return "", false
}

func nameOf(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	receiver := fn.Recv.List[0].Type
	for {
		switch of := receiver.(type) {
		case *ast.StarExpr:
			receiver = of.X
		case *ast.IndexExpr:
			receiver = of.X
		case *ast.IndexListExpr:
			receiver = of.X
		case *ast.Ident:
			return of.Name + "." + fn.Name.Name
		default:
			return fn.Name.Name
		}
	}
}

// Dotted returns the source text of a selector, with () for each call in it: "s.Journal.Write".
func Dotted(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return Dotted(e.X) + "." + e.Sel.Name
	case *ast.CallExpr:
		return Dotted(e.Fun) + "()"
	default:
		return "?"
	}
}

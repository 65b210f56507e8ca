package arch

import (
	"bytes"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/modfile"
)

// source is what the files say.
type source struct {
	tree     fs.FS
	module   string
	packages map[string]*pkg // by folder, "." for the one at the top; those that have tests only are left out
	files    []file
	tests    map[string][]string // names of test functions by folder
	links    []link
	proofs   []proof
	top      []string // folders at the top
}

// pkg is a package without its tests: those may import what they like.
type pkg struct {
	imports   []imported
	described bool
}

type imported struct {
	path string
	at   string // "coord/server.go:12"
}

func (i imported) file() string { return i.at[:strings.LastIndexByte(i.at, ':')] }

type file struct {
	name  string
	lines int
}

// link leads from a document to another file, relative to its own folder.
type link struct{ from, to string }

// proof is a test that a document names: by a command, `go test ./coord -run TestIt`, or by a link to its file, [TestIt](coord/it_test.go). A command
// may give several, and of each how its name begins: `go test ./coord -run 'TestThis\|TestThat'`.
type proof struct {
	from, folder, test string
	begins             bool
}

var (
	proven = regexp.MustCompile("`go test \\./([\\w/]*) -run (?:(\\w+)|'([^'`]+)')`")
	// beginning is that of a test among several. Of a folder with all below it, and of other patterns, nothing is looked for.
	beginning = regexp.MustCompile(`(?:^|\|)((?:Test|Fuzz)\w+)`)
	shown     = regexp.MustCompile(`\[(Test\w+)\]\(([^)]+)_test\.go\)`)
	testFunc  = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
)

// linked matches links of Markdown to other files, without what follows a "#".
var linked = regexp.MustCompile(`\]\(([^)#:\s]+)(?:#[^)\s]*)?\)`)

func readSource(tree fs.FS) (*source, error) {
	mod, err := fs.ReadFile(tree, "go.mod")
	if err != nil {
		return nil, err
	}
	s := &source{tree: tree, module: modfile.ModulePath(mod), packages: map[string]*pkg{}, tests: map[string][]string{}}
	if s.module == "" {
		return nil, errors.New("go.mod names no module")
	}
	err = fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			return s.enter(name)
		case path.Ext(name) == ".go":
			return s.readCode(name)
		case path.Ext(name) == ".md":
			return s.readDocument(name)
		}
		return nil
	})
	return s, err
}

// enter decides whether a folder belongs to the module.
func (s *source) enter(name string) error {
	if name == "." {
		return nil
	}
	base := path.Base(name)
	if strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") || base == "testdata" {
		return fs.SkipDir
	}
	if !strings.Contains(name, "/") {
		s.top = append(s.top, name)
	}
	if s.exists(path.Join(name, "go.mod")) {
		return fs.SkipDir
	}
	return nil
}

func (s *source) exists(name string) bool {
	_, err := fs.Stat(s.tree, name)
	return err == nil
}

// readDocument notes where a document's links lead and which tests it names.
func (s *source) readDocument(name string) error {
	text, err := fs.ReadFile(s.tree, name)
	if err != nil {
		return err
	}
	for _, m := range linked.FindAllSubmatch(text, -1) {
		s.links = append(s.links, link{name, string(m[1])})
	}
	for _, m := range proven.FindAllSubmatch(text, -1) {
		folder := path.Clean(string(m[1]))
		if len(m[2]) > 0 {
			s.proofs = append(s.proofs, proof{from: name, folder: folder, test: string(m[2])})
		}
		for _, test := range beginning.FindAllSubmatch(m[3], -1) {
			s.proofs = append(s.proofs, proof{name, folder, string(test[1]), true})
		}
	}
	for _, m := range shown.FindAllSubmatch(text, -1) {
		s.proofs = append(s.proofs, proof{from: name, folder: path.Join(path.Dir(name), path.Dir(string(m[2]))), test: string(m[1])})
	}
	return nil
}

// readCode notes a file's size, and what it imports or, if it is a test, which tests it has.
func (s *source) readCode(name string) error {
	text, err := fs.ReadFile(s.tree, name)
	if err != nil {
		return err
	}
	s.files = append(s.files, file{name, bytes.Count(text, []byte("\n"))})
	folder := path.Dir(name)
	if strings.HasSuffix(name, "_test.go") {
		for _, m := range testFunc.FindAllSubmatch(text, -1) {
			s.tests[folder] = append(s.tests[folder], string(m[1]))
		}
		return nil
	}
	positions := token.NewFileSet()
	parsed, err := parser.ParseFile(positions, name, text, parser.ImportsOnly|parser.ParseComments)
	if err != nil {
		return err
	}
	p := s.packages[folder]
	if p == nil {
		p = &pkg{}
		s.packages[folder] = p
	}
	p.described = p.described || parsed.Doc != nil
	for _, spec := range parsed.Imports {
		imp, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return err
		}
		p.imports = append(p.imports, imported{imp, fmt.Sprintf("%s:%d", name, positions.Position(spec.Pos()).Line)})
	}
	return nil
}

// folder returns the folder of an import path of this module.
func (s *source) folder(importPath string) (string, bool) {
	if importPath == s.module {
		return ".", true
	}
	rest, ours := strings.CutPrefix(importPath, s.module+"/")
	if !ours {
		return "", false
	}
	return rest, slices.Contains(s.top, strings.Split(rest, "/")[0])
}

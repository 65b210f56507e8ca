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

// source is the parsed module.
type source struct {
	tree     fs.FS
	module   string
	packages map[string]*pkg // by directory, "." for the root; packages with only tests are omitted
	files    []file
	tests    map[string][]string // names of test functions by directory
	links    []link
	proofs   map[string][]Proof // tests named as proofs, by document
	top      []string           // top-level directories
}

// pkg is a package without its tests, which may import any package.
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

// link is a link from a document to another file, relative to the document.
type link struct{ from, to string }

// Proof is a test named in a document, either by a command such as `go test ./coord -run TestIt` (or -run
// 'TestIt\|TestThat' for two tests), or by a link to its file such as [TestIt](coord/it_test.go).
type Proof struct {
	Folders []string // one of them must have the test; "sal/..." includes all subdirectories
	Test    string   // its name or, for several tests or directories, a regular expression as for go test
	exact   bool
}

// Proofs returns the tests in the commands of a document.
func Proofs(text string) (all []Proof) {
	for _, m := range proven.FindAllStringSubmatch(text, -1) {
		var folders []string
		for argument := range strings.FieldsSeq(m[1]) {
			folders = append(folders, path.Clean(argument))
		}
		if m[2] != "" {
			test, _, _ := strings.Cut(m[2], "/") // the rest names a subtest
			all = append(all, Proof{folders, test, len(folders) == 1})
		}
		// Tables escape the separator.
		for test := range strings.SplitSeq(strings.ReplaceAll(parts.ReplaceAllString(m[3], ""), `\|`, "|"), "|") {
			if test != "" && test != "^$" { // "^$" runs only benchmarks
				all = append(all, Proof{folders, test, false})
			}
		}
	}
	return all
}

// linkedProofs returns the tests that a document links to.
func linkedProofs(folder, text string) (all []Proof) {
	for _, m := range shown.FindAllStringSubmatch(text, -1) {
		all = append(all, Proof{[]string{path.Join(folder, path.Dir(m[2]))}, m[1], true})
	}
	return all
}

// isOne reports whether p names the test in the directory.
func (p Proof) isOne(folder, test string) bool {
	in := slices.ContainsFunc(p.Folders, func(f string) bool {
		parent, all := strings.CutSuffix(f, "/...")
		return f == folder || all && under(folder, parent)
	})
	if !in || p.exact {
		return in && test == p.Test
	}
	is, err := regexp.MatchString(p.Test, test)
	return err == nil && is
}

// parts matches the subtests in names of tests.
var parts = regexp.MustCompile(`/(?:\([^)]*\)|[^|\\])*`)

var (
	proven   = regexp.MustCompile("`(?:WRIT_TEST_[A-Z]+=1 )?go test (?:-tags \\w+ )?((?:\\./?\\S* )+)(?:-v )?-run (?:([^\\s'`]+)|'([^'`]+)')(?: [^`]*)?`")
	shown    = regexp.MustCompile(`\[(Test\w+)\]\(([^)]+)_test\.go\)`)
	testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
)

// linked matches Markdown links to other files, without the fragment.
var linked = regexp.MustCompile(`\]\(([^)#:\s]+)(?:#[^)\s]*)?\)`)

func readSource(tree fs.FS) (*source, error) {
	mod, err := fs.ReadFile(tree, "go.mod")
	if err != nil {
		return nil, err
	}
	s := &source{
		tree: tree, module: modfile.ModulePath(mod), packages: map[string]*pkg{}, tests: map[string][]string{},
		proofs: map[string][]Proof{},
	}
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

// has reports whether the test of a proof exists.
func (s *source) has(p Proof) bool {
	for folder, tests := range s.tests {
		if slices.ContainsFunc(tests, func(test string) bool { return p.isOne(folder, test) }) {
			return true
		}
	}
	return false
}

// built lists top-level directories that tasks create and .gitignore contains.
var built = []string{"bin", "dist", "tutorial"}

// enter returns fs.SkipDir for a directory that does not belong to the module.
func (s *source) enter(name string) error {
	if name == "." {
		return nil
	}
	base := path.Base(name)
	if strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") || base == "testdata" || slices.Contains(built, name) {
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

// readDocument records the links of a document and the tests that it names.
func (s *source) readDocument(name string) error {
	text, err := fs.ReadFile(s.tree, name)
	if err != nil {
		return err
	}
	for _, m := range linked.FindAllSubmatch(text, -1) {
		s.links = append(s.links, link{name, string(m[1])})
	}
	s.proofs[name] = append(Proofs(string(text)), linkedProofs(path.Dir(name), string(text))...)
	return nil
}

// readCode records a file's size and its imports or, for a test file, its tests.
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

// folder returns the directory of an import path of this module.
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

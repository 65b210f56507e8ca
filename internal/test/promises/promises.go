// Package promises reads the promises of writ from the comments of its tests. A promise is a paragraph in the doc
// comment of a test:
//
//	// Promise: Failures: A restarted supervisor continues its runs under a higher epoch.
//	// How: Open runs wake up from the journal.
//	// Subtest: restart
//	// Also: TestRecovery, TestStandbyContinues/lease.
//
// The text before the second colon is the section. How gives the mechanism, Subtest the part of this test that proves
// the promise, and Also further tests. A test in Also that several packages declare needs its folder:
// sal/volume.TestConformance.
package promises

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"strings"
)

// Promise is one sentence that users can rely on, with the tests that fail if it breaks.
type Promise struct {
	Section  string
	Sentence string
	How      string
	Tests    []Test // the test with the comment comes first
}

// Test is a test of a promise.
type Test struct {
	Module  string // folder of its module, "." for the main module
	Folder  string
	Name    string
	Subtest string
	Nightly bool // skipped outside of the nightly tier
}

// Read returns the promises in all Go files below the root of tree, in the order of their folders and files. The error
// joins all faults: promises outside of tests, incomplete ones, and names of tests that are unknown or never run.
func Read(tree fs.FS) ([]Promise, error) {
	r := reader{tree: tree, tests: map[string][]Test{}}
	if err := fs.WalkDir(tree, ".", r.visit); err != nil {
		return nil, err
	}
	var all []Promise
	for _, found := range r.found {
		promise, err := r.complete(found)
		r.report(found.at, err)
		all = append(all, promise)
	}
	return all, errors.Join(r.faults...)
}

// reader collects the tests and the promise comments of a tree.
type reader struct {
	tree    fs.FS
	modules []string
	tests   map[string][]Test // by name
	found   []comment
	faults  []error
}

// comment is a promise comment at a test.
type comment struct {
	at   string // file
	test Test
	text string
}

func (r *reader) visit(name string, entry fs.DirEntry, err error) error {
	switch {
	case err != nil:
		return err
	case entry.IsDir() && isSkipped(entry.Name()):
		return fs.SkipDir
	case entry.IsDir():
		if _, err := fs.Stat(r.tree, path.Join(name, "go.mod")); err == nil {
			r.modules = append(r.modules, name)
		}
		return nil
	case path.Ext(name) != ".go":
		return nil
	}
	text, err := fs.ReadFile(r.tree, name)
	if err != nil {
		return err
	}
	if isTest := strings.HasSuffix(name, "_test.go"); !isTest && !strings.Contains(string(text), marker) {
		return nil
	}
	return r.file(name, text)
}

func isSkipped(folder string) bool {
	return folder != "." && (strings.HasPrefix(folder, ".") || strings.HasPrefix(folder, "_") || folder == "testdata")
}

const marker = "// Promise:"

// file records the tests of one file and reports promise comments elsewhere.
func (r *reader) file(name string, text []byte) error {
	syntax, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	runs, err := isBuilt(name, text)
	if err != nil {
		return err
	}
	atTests := map[*ast.CommentGroup]bool{}
	for _, decl := range syntax.Decls {
		function, ok := decl.(*ast.FuncDecl)
		if !ok || !isTest(name, function) || !runs {
			continue
		}
		test := Test{Module: r.moduleOf(name), Folder: path.Dir(name), Name: function.Name.Name, Nightly: isNightly(function)}
		r.tests[test.Name] = append(r.tests[test.Name], test)
		if function.Doc == nil {
			continue
		}
		atTests[function.Doc] = true
		for _, block := range blocks(function.Doc) {
			r.found = append(r.found, comment{at: name, test: test, text: block})
		}
	}
	for _, group := range syntax.Comments {
		if !atTests[group] && len(blocks(group)) > 0 {
			r.report(name, errors.New("a promise belongs in the doc comment of a test that go test ./... builds"))
		}
	}
	return nil
}

func (r *reader) report(at string, err error) {
	if err != nil {
		r.faults = append(r.faults, fmt.Errorf("%s: %w", at, err))
	}
}

// moduleOf returns the innermost module of a file.
func (r *reader) moduleOf(name string) string {
	module := "."
	for _, m := range r.modules {
		if strings.HasPrefix(name, m+"/") && len(m) > len(module) {
			module = m
		}
	}
	return module
}

// complete parses a comment and finds its further tests.
func (r *reader) complete(found comment) (Promise, error) {
	fields := parse(found.text)
	section, sentence, ok := strings.Cut(fields["Promise"], ": ")
	if !ok || !strings.HasSuffix(sentence, ".") {
		return Promise{}, fmt.Errorf("%s: a promise reads \"Promise: Section: A sentence.\"", found.test.Name)
	}
	promise := Promise{Section: section, Sentence: sentence, How: fields["How"]}
	first := found.test
	first.Subtest = strings.TrimSuffix(fields["Subtest"], ".")
	promise.Tests = append(promise.Tests, first)
	for name := range strings.SplitSeq(strings.TrimSuffix(fields["Also"], "."), ", ") {
		if name == "" {
			continue
		}
		test, err := r.find(name, found.test.Folder)
		if err != nil {
			return promise, fmt.Errorf("%s: %w", found.test.Name, err)
		}
		promise.Tests = append(promise.Tests, test)
	}
	return promise, nil
}

// find returns the test of a name such as TestA, TestA/part or folder.TestA. A test in the same folder is preferred.
func (r *reader) find(name, folder string) (Test, error) {
	in, rest := "", name
	if i := strings.Index(name, ".Test"); i >= 0 {
		in, rest = name[:i], name[i+1:]
	}
	base, part, _ := strings.Cut(rest, "/")
	var matches []Test
	for _, test := range r.tests[base] {
		if in == test.Folder || in == "" && test.Folder == folder {
			matches = []Test{test}
			break
		}
		if in == "" {
			matches = append(matches, test)
		}
	}
	switch len(matches) {
	case 0:
		return Test{}, fmt.Errorf("test %s is unknown", name)
	case 1:
		matches[0].Subtest = part
		return matches[0], nil
	}
	return Test{}, fmt.Errorf("test %s is in several packages: write folder.%s", name, base)
}

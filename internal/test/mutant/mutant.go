// Package mutant removes a mechanism from a copy of this program, so that a test can show that other tests detect the
// removal. An edit selects its place by function and syntax node, and is therefore independent of files, lines and
// comments. The package does not know which mechanisms the program has.
package mutant

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"writ/internal/test/gosource"
)

// Edit replaces one syntax node of the program.
type Edit struct {
	// In is the function or constant, with the name of its package: "supervisor.watcher.miss". If it moved to another
	// package, it is found there as long as its name is unique.
	In    string
	Node  Kind
	Names string // identifier that the node contains; "" matches every node of its kind
	Nth   int    // number of the match, from 1; 0 if there is only one
	// Becomes is the new text. $0 stands for the old text of the node, and $1, $2 and so on for its parts; see Kind.
	Becomes string
}

// Templates for Edit.Becomes. They keep the variables of the old text in use, because Go does not compile a program
// with unused variables.
const (
	Never  = "($0) && false"
	Always = "($0) || true"
	Negate = "!($0)"
)

// change is an edit with its place in a file.
type change struct {
	file       *gosource.File
	begin, end int
	text       string
}

// Program is the source of the module.
type Program struct {
	files []*gosource.File
}

// Load parses the module that contains the working directory.
func Load() (*Program, error) {
	root, err := gosource.Module()
	if err != nil {
		return nil, err
	}
	files, err := gosource.Load(root)
	return &Program{files}, err
}

// Mutant is a program with some edits. It is not on disk until Overlay writes it.
type Mutant struct {
	changes []change
}

// Mutate finds the places of edits. The error explains how to correct an edit whose place is missing or ambiguous.
func (p *Program) Mutate(edits ...Edit) (*Mutant, error) {
	m := &Mutant{}
	for _, e := range edits {
		c, err := p.find(e)
		if err != nil {
			return nil, err
		}
		m.changes = append(m.changes, c)
	}
	return m, nil
}

// Overlaps reports whether two mutants change the same text, so that one program cannot have both.
func (m *Mutant) Overlaps(other *Mutant) bool {
	return slices.ContainsFunc(m.changes, func(a change) bool {
		return slices.ContainsFunc(other.changes,
			func(b change) bool { return a.file == b.file && a.begin < b.end && b.begin < a.end })
	})
}

// Join returns a mutant with the changes of both.
func (m *Mutant) Join(other *Mutant) *Mutant {
	return &Mutant{slices.Concat(m.changes, other.changes)}
}

// Packages returns the folders of the packages that the mutant changes, such as "./supervisor".
func (m *Mutant) Packages() []string {
	folders := map[string]bool{}
	for _, c := range m.changes {
		folders["./"+c.file.Folder] = true
	}
	return slices.Sorted(maps.Keys(folders))
}

// Overlay writes the changed files and an overlay for the go command into dir. It returns the path of the overlay.
func (m *Mutant) Overlay(dir string) (string, error) {
	files := map[*gosource.File][]change{}
	for _, c := range m.changes {
		files[c.file] = append(files[c.file], c)
	}
	replaced := map[string]string{}
	for file, changes := range files {
		path := filepath.Join(dir, fmt.Sprintf("%d_%s", len(replaced), filepath.Base(file.Path)))
		if err := os.WriteFile(path, []byte(apply(file.Text, changes)), 0o600); err != nil {
			return "", err
		}
		replaced[file.Path] = path
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, overlay, 0o600)
}

// apply replaces texts from last to first, so that offsets stay valid.
func apply(text []byte, changes []change) string {
	changes = slices.SortedFunc(slices.Values(changes), func(a, b change) int { return b.begin - a.begin })
	changed := string(text)
	for _, c := range changes {
		changed = changed[:c.begin] + c.text + changed[c.end:]
	}
	return changed
}

// find returns the change that an edit makes.
func (p *Program) find(e Edit) (change, error) {
	if e.Node == Value {
		return p.findValue(e)
	}
	fn, err := p.function(e.In)
	if err != nil {
		return change{}, err
	}
	all := nodes(fn, e.Node)
	found := slices.Clone(all)
	if e.Names != "" {
		found = slices.DeleteFunc(found, func(n node) bool { return !n.has(e.Node, e.Names) })
	}
	switch {
	case e.Nth > 0 && e.Nth <= len(found):
		return e.replace(fn.File, found[e.Nth-1])
	case e.Nth == 0 && len(found) == 1:
		return e.replace(fn.File, found[0])
	case len(found) > 1 && e.Nth == 0:
		return change{}, fmt.Errorf("%s has %d nodes like %s; choose one with Names or Nth:%s", e.In, len(found), e.spot(),
			show(fn.File, found))
	default:
		return change{},
			fmt.Errorf("%s (%s) has %d nodes like %s; correct Names or Nth, or In if the code moved to another function. Of this kind it has:%s",
				e.In, fn.File.At(fn.Decl), len(found), e.spot(), show(fn.File, all))
	}
}

// spot describes the place of an edit for a message: `if with "epoch" (number 2)`.
func (e Edit) spot() string {
	text := string(e.Node)
	if e.Names != "" {
		text += fmt.Sprintf(" with %q", e.Names)
	}
	if e.Nth > 0 {
		text += fmt.Sprintf(" (number %d)", e.Nth)
	}
	return text
}

// show lists nodes for a message, one per line.
func show(f *gosource.File, found []node) string {
	if len(found) == 0 {
		return " none"
	}
	var text strings.Builder
	for _, n := range found {
		line, _, _ := strings.Cut(f.Source(n.whole), "\n")
		fmt.Fprintf(&text, "\n\t%s: %s", f.At(n.whole), line)
	}
	return text.String()
}

// function finds a function by package and name. If the package has no such function, a unique function of that name in
// another package matches.
func (p *Program) function(in string) (gosource.Function, error) {
	_, name, _ := strings.Cut(in, ".")
	var exact, elsewhere, similar []gosource.Function
	for _, f := range p.files {
		for _, fn := range f.Functions() {
			switch {
			case fn.String() == in:
				exact = append(exact, fn)
			case fn.Name == name:
				elsewhere = append(elsewhere, fn)
			case last(fn.Name) == last(name):
				similar = append(similar, fn)
			}
		}
	}
	switch {
	case len(exact) == 1:
		return exact[0], nil
	case len(exact) == 0 && len(elsewhere) == 1:
		return elsewhere[0], nil
	}
	candidates := slices.Concat(exact, elsewhere)
	if len(candidates) == 0 {
		candidates = similar
	}
	var list []string
	for _, fn := range candidates {
		list = append(list, fmt.Sprintf("%s (%s)", fn, fn.File.At(fn.Decl)))
	}
	return gosource.Function{},
		fmt.Errorf("%d functions are called %s; set In to the new name of the function. Similar: %s", len(exact), in,
			strings.Join(list, ", "))
}

func last(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

// findValue finds the value of a constant or variable, with the same rules as for functions.
func (p *Program) findValue(e Edit) (change, error) {
	pkg, name, _ := strings.Cut(e.In, ".")
	exact, elsewhere := map[*gosource.File]node{}, map[*gosource.File]node{}
	for _, f := range p.files {
		if v := value(f, name); v != nil && f.Syntax.Name.Name == pkg {
			exact[f] = node{whole: v}
		} else if v != nil {
			elsewhere[f] = node{whole: v}
		}
	}
	found := exact
	if len(found) == 0 {
		found = elsewhere
	}
	if len(found) != 1 {
		return change{}, fmt.Errorf("%d constants or variables are called %s; set In to the new name", len(found), e.In)
	}
	for f, n := range found {
		return e.replace(f, n)
	}
	panic("unreachable")
}

var placeholder = regexp.MustCompile(`\$\d`)

// replace returns the change of a node.
func (e Edit) replace(f *gosource.File, n node) (change, error) {
	begin, end := f.Span(n.whole)
	if n.end.IsValid() {
		end = begin + int(n.end-n.whole.Pos())
	}
	var failed error
	text := placeholder.ReplaceAllStringFunc(e.Becomes, func(part string) string {
		i, _ := strconv.Atoi(part[1:])
		switch {
		case i == 0:
			return string(f.Text[begin:end])
		case i <= len(n.parts):
			return f.Source(n.parts[i-1])
		default:
			failed = fmt.Errorf("%s of %s has no part %s; correct Becomes (%q) of the %s at %s", e.spot(), e.In, part, e.Becomes,
				e.Node, f.At(n.whole))
			return ""
		}
	})
	return change{f, begin, end, text}, failed
}

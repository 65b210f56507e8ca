package arch

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// planFile contains the tables.
const planFile = "docs/architecture.md"

// plan is the content of the tables.
type plan struct {
	rows    []*row
	outside []rule
}

// row is a row of the table Packages. The root package is the directory ".".
type row struct {
	// The first folder names the row; "sal/*" matches every directory there without its own row.
	folders   []string
	mayImport []string // names of rows
	all       bool
}

func (r *row) name() string { return r.folders[0] }

// rule is a row of the table Outside.
type rule struct {
	what    string
	onlyIn  []string // directories, each with its subdirectories
	oneFile bool
}

// rootName is the name of the root package in the tables. Every other package may import the row internalName.
const (
	rootName     = "writ"
	internalName = "internal"
)

var quoted = regexp.MustCompile("`([^`]+)`")

// Quoted returns the texts in backquotes.
func Quoted(cell string) (all []string) {
	for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
		all = append(all, m[1])
	}
	return all
}

func readPlan(tree fs.FS) (*plan, error) {
	text, err := fs.ReadFile(tree, planFile)
	if err != nil {
		return nil, err
	}
	p := &plan{}
	for _, cells := range Table(string(text), "Packages") {
		if len(cells) != 4 {
			return nil, fmt.Errorf("%s: the row %q of Packages has %d cells, want 4", planFile, cells[0], len(cells))
		}
		r := &row{folders: names(cells[0]), mayImport: names(cells[3]), all: strings.TrimSpace(cells[3]) == "all"}
		if len(r.folders) == 0 {
			return nil, fmt.Errorf("%s: the row %q of Packages names no folder", planFile, cells[0])
		}
		p.rows = append(p.rows, r)
	}
	for _, cells := range Table(string(text), "Outside") {
		if len(cells) != 3 || len(names(cells[0])) == 0 || len(names(cells[1])) == 0 {
			return nil, fmt.Errorf("%s: the row %q of Outside is not: imports, folders, why", planFile, cells[0])
		}
		for _, what := range names(cells[0]) {
			p.outside = append(p.outside,
				rule{what: what, onlyIn: names(cells[1]), oneFile: strings.Contains(cells[1], "one file")})
		}
	}
	if len(p.rows) == 0 || len(p.outside) == 0 {
		return nil, fmt.Errorf("%s: no table under the headings Packages and Outside", planFile)
	}
	for _, r := range p.rows {
		for _, name := range r.mayImport {
			if !slices.ContainsFunc(p.rows, func(other *row) bool { return slices.Contains(other.folders, name) }) {
				return nil, fmt.Errorf("%s: the row of %s allows %s, which has no row", planFile, r.name(), name)
			}
		}
	}
	return p, nil
}

// Table returns the body cells of the first Markdown table under a heading. A cell may contain "\|".
func Table(text, heading string) (rows [][]string) {
	_, text, _ = strings.Cut(text, "\n## "+heading+"\n")
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "## "), len(rows) > 0 && !strings.HasPrefix(line, "|"):
			return body(rows)
		case strings.HasPrefix(line, "|"):
			rows = append(rows, cells(line))
		}
	}
	return body(rows)
}

// cells splits a row of a table.
func cells(line string) (all []string) {
	const escaped = "\x00" // replaces "\|", which does not end a cell
	for cell := range strings.SplitSeq(strings.Trim(strings.ReplaceAll(line, `\|`, escaped), "|"), "|") {
		all = append(all, strings.ReplaceAll(cell, escaped, `\|`))
	}
	return all
}

// body removes the heading row and the line below it.
func body(rows [][]string) [][]string { return rows[min(2, len(rows)):] }

// names returns the directories and other names in backquotes.
func names(cell string) []string {
	all := Quoted(cell)
	for i, name := range all {
		if name == rootName {
			all[i] = "."
		}
	}
	return all
}

// rowOf returns the row of a directory: the row that names it or the nearest parent directory.
func (p *plan) rowOf(folder string) *row {
	for f := folder; ; f = path.Dir(f) {
		for _, pattern := range []string{f, path.Join(path.Dir(f), "*")} {
			for _, r := range p.rows {
				if slices.Contains(r.folders, pattern) {
					return r
				}
			}
		}
		if !strings.Contains(f, "/") {
			return nil
		}
	}
}

// allows reports whether a directory in the row `from` may import target.
func (p *plan) allows(from *row, folder, target string) bool {
	to := p.rowOf(target)
	switch {
	case to == nil:
		return false
	case from == to:
		return !from.siblings(folder, target)
	case from.all:
		return true
	case to.name() == internalName:
		return from.name() != "."
	}
	return slices.ContainsFunc(to.folders, func(name string) bool { return slices.Contains(from.mayImport, name) })
}

// siblings reports whether two directories of a row like `sal/*` belong to different subdirectories. Siblings must not
// import each other.
func (r *row) siblings(a, b string) bool {
	parent, ok := strings.CutSuffix(r.name(), "*")
	if !ok {
		return false
	}
	child := func(folder string) string {
		name, _, _ := strings.Cut(strings.TrimPrefix(folder, parent), "/")
		return name
	}
	return child(a) != child(b)
}

// hasTop reports whether a row names a top-level directory or a directory in it.
func (p *plan) hasTop(dir string) bool {
	return slices.ContainsFunc(p.rows, func(r *row) bool {
		return slices.ContainsFunc(r.folders, func(f string) bool { return under(f, dir) })
	})
}

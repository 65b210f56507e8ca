// Package arch checks the source against the architecture. It compares the tables "Packages" and "Outside" of
// docs/architecture.md with the imports of every Go file, regardless of build constraints. It also limits the size of
// files, requires package comments, and checks links in documents to files and to the tests that prove a promise.
package arch

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// Limits of a file in lines, and of the root package as a whole. A file that exceeds its limit should be split.
const (
	maxSource    = 800
	maxTest      = 1500
	maxGenerated = 10000
	maxRoot      = 2590
)

// topLevel lists the top-level directories that need no row in the table Packages.
var topLevel = []string{"docs", "deploy", "tools"}

// Check reads the module at the root of tree and returns a sentence for each violation, in a stable order. The error
// means that tree could not be read.
func Check(tree fs.FS) (broken []string, err error) {
	plan, err := readPlan(tree)
	if err != nil {
		return nil, err
	}
	source, err := readSource(tree)
	if err != nil {
		return nil, err
	}
	c := &check{plan: plan, source: source}
	c.packages()
	c.outside()
	c.testSupport()
	c.sizes()
	c.comments()
	c.links()
	c.proofs()
	slices.Sort(c.broken)
	return c.broken, nil
}

type check struct {
	plan   *plan
	source *source
	broken []string
}

func (c *check) report(format string, args ...any) {
	c.broken = append(c.broken, fmt.Sprintf(format, args...))
}

// packages compares the imports between packages with the table "Packages".
func (c *check) packages() {
	used := map[*row]bool{}
	for folder, pkg := range c.source.packages {
		from := c.plan.rowOf(folder)
		if from == nil {
			c.report("%s has no row in the table Packages of %s", display(folder), planFile)
			continue
		}
		used[from] = true
		for _, imp := range pkg.imports {
			target, ours := c.source.folder(imp.path)
			switch {
			case !ours && folder == "." && !isStandard(imp.path):
				c.report("%s: the root package imports %s; it may import the standard library only", imp.at, imp.path)
			case ours && !c.plan.allows(from, folder, target):
				c.report("%s: %s imports %s, which the row of %s does not allow", imp.at, display(folder), display(target),
					display(from.name()))
			}
		}
	}
	for _, r := range c.plan.rows {
		if !used[r] {
			c.report("the row of %s in the table Packages has no package", display(r.name()))
		}
	}
	for _, dir := range c.source.top {
		if !slices.Contains(topLevel, dir) && !c.plan.hasTop(dir) {
			c.report("%s is a folder at the top without a row", dir)
		}
	}
}

// outside compares the imports of external packages with the table "Outside".
func (c *check) outside() {
	for _, rule := range c.plan.outside {
		files := map[string]map[string]bool{} // by place
		for folder, pkg := range c.source.packages {
			for _, imp := range pkg.imports {
				if !under(imp.path, rule.what) {
					continue
				}
				if target, ours := c.source.folder(imp.path); ours && under(folder, target) {
					continue
				}
				i := slices.IndexFunc(rule.onlyIn, func(place string) bool { return under(folder, place) })
				if i < 0 {
					c.report("%s: %s imports %s, which is for %s only", imp.at, display(folder), imp.path,
						strings.Join(rule.onlyIn, ", "))
					continue
				}
				place := rule.onlyIn[i]
				if files[place] == nil {
					files[place] = map[string]bool{}
				}
				files[place][imp.file()] = true
			}
		}
		for _, importing := range files {
			if rule.oneFile && len(importing) > 1 {
				c.report("%s is imported by %s; it belongs into one file", rule.what,
					strings.Join(slices.Sorted(maps.Keys(importing)), " and "))
			}
		}
	}
}

// testSupport checks that the product does not import test support: packages below a folder internal/test, and packages
// that import testing.
func (c *check) testSupport() {
	forTests := func(folder string) bool {
		if strings.Contains("/"+folder+"/", "/internal/test/") {
			return true
		}
		pkg := c.source.packages[folder]
		return pkg != nil && slices.ContainsFunc(pkg.imports, func(imp imported) bool { return imp.path == "testing" })
	}
	for folder, pkg := range c.source.packages {
		if forTests(folder) {
			continue
		}
		for _, imp := range pkg.imports {
			if target, ours := c.source.folder(imp.path); ours && forTests(target) {
				c.report("%s: %s imports %s, which is made for tests", imp.at, display(folder), display(target))
			}
		}
	}
}

// sizes checks the size of files and of the root package.
func (c *check) sizes() {
	root := 0
	for _, f := range c.source.files {
		most := maxSource
		switch {
		case strings.HasSuffix(f.name, "_test.go"):
			most = maxTest
		case strings.HasSuffix(f.name, ".gen.go"):
			most = maxGenerated
		case path.Dir(f.name) == ".":
			root += f.lines
		}
		if f.lines > most {
			c.report("%s has %d lines, %d are allowed", f.name, f.lines, most)
		}
	}
	if root > maxRoot {
		c.report("the root package has %d lines, %d are allowed", root, maxRoot)
	}
}

// comments checks that each package has a comment.
func (c *check) comments() {
	for folder, pkg := range c.source.packages {
		if !pkg.described {
			c.report("%s has no package comment", display(folder))
		}
	}
}

// links checks the links from documents to other files.
func (c *check) links() {
	for _, l := range c.source.links {
		target := path.Join(path.Dir(l.from), l.to)
		if !fs.ValidPath(target) || !c.source.exists(target) {
			c.report("%s has a link to %s, which is not there", l.from, l.to)
		}
	}
}

// proofs checks that each test named as a proof in a document exists.
func (c *check) proofs() {
	for document, proofs := range c.source.proofs {
		for _, p := range proofs {
			if !c.source.has(p) {
				c.report("%s names the test %s of %s, which is not there", document, p.Test, display(strings.Join(p.Folders, " ")))
			}
		}
	}
}

// under reports whether p is parent or inside it.
func under(p, parent string) bool { return p == parent || strings.HasPrefix(p, parent+"/") }

// isStandard reports whether an import path belongs to the standard library: its first element has no dot.
func isStandard(p string) bool {
	first, _, _ := strings.Cut(p, "/")
	return !strings.Contains(first, ".")
}

// display formats a directory for messages.
func display(folder string) string {
	if folder == "." {
		return "the root package"
	}
	return folder
}

// Package lazyregexp provides regular expressions that are compiled at their first use. A command uses few of writ's
// expressions, and compiling all of them would take longer than most commands.
package lazyregexp

import (
	"os"
	"path/filepath"
	"regexp"
	"sync"
)

// Regexp is a regular expression with methods of regexp.Regexp. Goroutines may share it.
type Regexp struct {
	expr     string
	once     sync.Once
	compiled *regexp.Regexp // set by once
}

// New returns a regular expression. If expr is invalid, the first use panics. In a test, New panics, so that an invalid
// expression fails the tests of its package.
func New(expr string) *Regexp {
	r := &Regexp{expr: expr}
	if isTest() {
		r.get()
	}
	return r
}

// isTest reports whether "go test" built this program.
func isTest() bool { return len(os.Args) > 0 && filepath.Ext(os.Args[0]) == ".test" }

func (r *Regexp) get() *regexp.Regexp {
	r.once.Do(func() { r.compiled = regexp.MustCompile(r.expr) })
	return r.compiled
}

// String returns the expression.
func (r *Regexp) String() string { return r.expr }

// Match is Match of regexp.Regexp.
func (r *Regexp) Match(b []byte) bool { return r.get().Match(b) }

// MatchString is MatchString of regexp.Regexp.
func (r *Regexp) MatchString(s string) bool { return r.get().MatchString(s) }

// FindSubmatch is FindSubmatch of regexp.Regexp.
func (r *Regexp) FindSubmatch(b []byte) [][]byte { return r.get().FindSubmatch(b) }

// FindStringIndex is FindStringIndex of regexp.Regexp.
func (r *Regexp) FindStringIndex(s string) []int { return r.get().FindStringIndex(s) }

// FindStringSubmatch is FindStringSubmatch of regexp.Regexp.
func (r *Regexp) FindStringSubmatch(s string) []string { return r.get().FindStringSubmatch(s) }

// FindStringSubmatchIndex is FindStringSubmatchIndex of regexp.Regexp.
func (r *Regexp) FindStringSubmatchIndex(s string) []int { return r.get().FindStringSubmatchIndex(s) }

// FindAllStringIndex is FindAllStringIndex of regexp.Regexp.
func (r *Regexp) FindAllStringIndex(s string, n int) [][]int { return r.get().FindAllStringIndex(s, n) }

// FindAllStringSubmatch is FindAllStringSubmatch of regexp.Regexp.
func (r *Regexp) FindAllStringSubmatch(s string, n int) [][]string {
	return r.get().FindAllStringSubmatch(s, n)
}

// FindAllStringSubmatchIndex is FindAllStringSubmatchIndex of regexp.Regexp.
func (r *Regexp) FindAllStringSubmatchIndex(s string, n int) [][]int {
	return r.get().FindAllStringSubmatchIndex(s, n)
}

// ReplaceAll is ReplaceAll of regexp.Regexp.
func (r *Regexp) ReplaceAll(src, repl []byte) []byte { return r.get().ReplaceAll(src, repl) }

// ReplaceAllFunc is ReplaceAllFunc of regexp.Regexp.
func (r *Regexp) ReplaceAllFunc(src []byte, repl func([]byte) []byte) []byte {
	return r.get().ReplaceAllFunc(src, repl)
}

// ReplaceAllString is ReplaceAllString of regexp.Regexp.
func (r *Regexp) ReplaceAllString(src, repl string) string {
	return r.get().ReplaceAllString(src, repl)
}

// ReplaceAllStringFunc is ReplaceAllStringFunc of regexp.Regexp.
func (r *Regexp) ReplaceAllStringFunc(src string, repl func(string) string) string {
	return r.get().ReplaceAllStringFunc(src, repl)
}

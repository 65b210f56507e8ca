package cli

import (
	"path/filepath"
	"strings"
)

// ClassOf returns the class name of the tests of a script, as `writ test` uses it.
func ClassOf(script string) string { return strings.TrimSuffix(filepath.ToSlash(script), ".tengo") }

// CutLast splits s at its last colon, if it has one.
func CutLast(s string) (before, after string) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return s, ""
	}
	return s[:i], s[i+1:]
}

// Package library holds the modules that come with writ. Scripts import them as "lib/NAME@VERSION". The package holds
// only their texts and does not interpret them.
//
// The bytes of a module are signed with each script that imports it, so a run does not depend on a later binary. A
// published version never changes; a change is published as the next version, and both stay.
package library

import (
	"cmp"
	"embed"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// Prefix begins the name of every module of the library. No other module can have such a name.
const Prefix = "lib/"

// The file of "lib/fleet@1" is fleet@1.tengo.
//
//go:embed *.tengo
var files embed.FS

const ending = ".tengo"

// Module is a module of the library.
type Module struct {
	Name  string `json:"name"`  // as scripts import it, "lib/fleet@1"
	About string `json:"about"` // one line
	Text  string `json:"text"`
}

// Find returns a module by the name that scripts import.
func Find(name string) (Module, bool) {
	base, ok := strings.CutPrefix(name, Prefix)
	if !ok || !fs.ValidPath(base) {
		return Module{}, false
	}
	text, err := files.ReadFile(base + ending)
	if err != nil {
		return Module{}, false
	}
	return Module{Name: name, About: about(string(text)), Text: string(text)}, true
}

// Names returns the names of all modules, older versions before newer versions.
func Names() []string {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(err) // it is part of the binary
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = Prefix + strings.TrimSuffix(e.Name(), ending)
	}
	slices.SortFunc(names, func(a, b string) int {
		nameA, versionA := split(a)
		nameB, versionB := split(b)
		return cmp.Or(strings.Compare(nameA, nameB), versionA-versionB)
	})
	return names
}

// Newest returns the newest version of a module, ignoring the version in name. It returns "" for an unknown module.
func Newest(name string) string {
	base, _, _ := strings.Cut(name, "@")
	newest := ""
	for _, n := range Names() {
		if found, _ := split(n); found == base {
			newest = n
		}
	}
	return newest
}

// split splits "lib/fleet@12".
func split(name string) (base string, version int) {
	base, text, _ := strings.Cut(name, "@")
	version, err := strconv.Atoi(text)
	if err != nil {
		return base, 0
	}
	return base, version
}

// about returns the first line of a text's comment, without the leading name.
func about(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	_, line, _ = strings.Cut(line, ": ")
	return line
}

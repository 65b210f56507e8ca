// Package library holds the modules that come with writ and that scripts import as "lib/NAME@VERSION". It knows their texts and nothing
// about what they mean.
//
// The bytes of a module are signed with each script that imports it, so a run depends on no later binary. A version that was published
// never changes; what is to be different is published as the next one, and both stay.
package library

import (
	"cmp"
	"embed"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// Prefix begins the name of every module of the library, and of no other: a module of an author's own cannot take its place.
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

// Names returns the names of all modules, older versions before newer ones.
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

// Newest returns the newest version of a module, whatever version name has; "" if there is none.
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

// split takes "lib/fleet@12" apart.
func split(name string) (base string, version int) {
	base, text, _ := strings.Cut(name, "@")
	version, err := strconv.Atoi(text)
	if err != nil {
		return base, 0
	}
	return base, version
}

// about returns the first line of a text's comment, without the name that it begins with.
func about(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	_, line, _ = strings.Cut(line, ": ")
	return line
}

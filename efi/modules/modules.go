// Package modules indexes the modules of a Linux kernel: their dependencies, the devices they serve and the order to
// load them. It reads the metadata from the modules or from the lists of depmod and modprobe, and can write such lists.
// It does not depend on the devices of a machine, and it does not load modules.
package modules

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"

	"writ"
)

// Module is a kernel module.
type Module struct {
	Name     string   // with underscores, as in /proc/modules
	Path     string   // relative to the module directory; in lists it ends with ".ko" even if the file is compressed
	Aliases  []string // patterns of served devices, with underscores except in brackets
	Depends  []string // names of modules that must be loaded before this module
	Before   []string // names or aliases of optional modules to load before this module
	After    []string // names or aliases of optional modules to load after this module
	Firmware []string // names of firmware files that the module requests
	License  string   // as declared, for example "GPL"

	source string // source file of the metadata
}

// Index holds the modules of one kernel.
type Index struct {
	modules map[string]*Module
	builtin map[string]bool // names of modules that are built into the kernel
	files   fs.FS           // module directory
}

// normal replaces hyphens by underscores: the kernel does not distinguish them in names.
func normal(name string) string { return strings.ReplaceAll(name, "-", "_") }

// normalPattern replaces hyphens by underscores in a pattern, except in brackets, where a hyphen denotes a range.
func normalPattern(pattern string) string {
	inside := false
	return strings.Map(func(r rune) rune {
		switch {
		case r == '[':
			inside = true
		case r == ']':
			inside = false
		case r == '-' && !inside:
			return '_'
		}
		return r
	}, pattern)
}

// nameOf returns the name of the module in a file.
func nameOf(file string) string {
	name, _, _ := strings.Cut(path.Base(file), ".ko")
	return normal(name)
}

// Scan reads all modules below the directory lib/modules/VERSION of a package. The modules may be compressed.
func Scan(dir fs.FS) (*Index, error) {
	x := &Index{modules: map[string]*Module{}, builtin: map[string]bool{}, files: dir}
	list, err := fs.ReadFile(dir, "modules.builtin")
	if err != nil {
		return nil, writ.Errorf(writ.CodeUsage, "the directory of modules cannot be read: %v", err).
			WithHint("it is lib/modules/VERSION of the kernel's package")
	}
	for line := range strings.Lines(string(list)) {
		x.builtin[nameOf(strings.TrimSpace(line))] = true
	}
	err = fs.WalkDir(dir, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !isModule(file) {
			return err
		}
		object, err := read(dir, file)
		if err != nil {
			return err
		}
		m, err := parse(nameOf(file), object)
		if err != nil {
			return err
		}
		stem, _, _ := strings.Cut(file, ".ko")
		m.Path, m.source = stem+".ko", file
		if other := x.modules[m.Name]; other != nil {
			return fmt.Errorf("%s and %s are modules with the same name", other.source, file)
		}
		x.modules[m.Name] = m
		return nil
	})
	return x, err
}

// endings lists the suffixes of module files.
var endings = []string{".ko", ".ko.xz", ".ko.zst", ".ko.gz"}

func isModule(file string) bool {
	return slices.ContainsFunc(endings, func(ending string) bool { return strings.HasSuffix(file, ending) })
}

// largest limits the unpacked size of a module. Debian's largest modules have a few MiB.
const largest = 64 << 20

// read returns the uncompressed content of a module.
func read(dir fs.FS, file string) ([]byte, error) {
	packed, err := fs.ReadFile(dir, file)
	if err != nil {
		return nil, err
	}
	var in io.Reader = bytes.NewReader(packed)
	switch path.Ext(file) {
	case ".ko":
		return packed, nil
	case ".xz":
		in, err = xz.NewReader(in)
	case ".gz":
		in, err = gzip.NewReader(in)
	case ".zst":
		var z *zstd.Decoder
		if z, err = zstd.NewReader(in, zstd.WithDecoderConcurrency(1)); err == nil {
			defer z.Close()
			in = z
		}
	}
	if err != nil {
		return nil, fmt.Errorf("unpack the module %s: %w", file, err)
	}
	object, err := io.ReadAll(io.LimitReader(in, largest+1))
	if err == nil && len(object) > largest {
		err = errors.New("it is too large")
	}
	if err != nil {
		return nil, fmt.Errorf("unpack the module %s: %w", file, err)
	}
	return object, nil
}

// Object returns the uncompressed content of a module.
func (x *Index) Object(m *Module) ([]byte, error) { return read(x.files, cmp.Or(m.source, m.Path)) }

// Find returns the modules with a name or an alias, such as a modalias. builtin is set if the module is built into the
// kernel.
func (x *Index) Find(alias string) (found []*Module, builtin bool) {
	name := normal(alias)
	if m := x.modules[name]; m != nil {
		return []*Module{m}, false
	}
	if x.builtin[name] {
		return nil, true
	}
	for _, m := range x.modules {
		if slices.ContainsFunc(m.Aliases, func(pattern string) bool { return matches(pattern, name) }) {
			found = append(found, m)
		}
	}
	slices.SortFunc(found, func(a, b *Module) int { return cmp.Compare(a.Name, b.Name) })
	return found, false
}

// Closure returns the modules with the given names or aliases and all their dependencies, in load order. It returns
// NOT_FOUND for an unknown name, unless the module is built into the kernel.
func (x *Index) Closure(names ...string) ([]*Module, error) {
	c := &closure{index: x, state: map[string]int{}}
	for _, name := range names {
		found, builtin := x.Find(name)
		if len(found) == 0 && !builtin {
			return nil, writ.Errorf(writ.CodeNotFound, "the kernel has no module %s", name).
				WithHint("`find lib/modules -name '*.ko*'` lists the modules of a package")
		}
		for _, m := range found {
			if err := c.add(m); err != nil {
				return nil, err
			}
		}
	}
	return c.order, nil
}

// closure holds the state of Closure.
type closure struct {
	index *Index
	state map[string]int // by name: open, then done
	order []*Module
	hard  bool // ignore optional modules
}

const (
	open = iota + 1
	done
)

func (c *closure) add(m *Module) error {
	switch c.state[m.Name] {
	case done:
		return nil
	case open:
		return fmt.Errorf("the module %s needs itself", m.Name)
	}
	c.state[m.Name] = open
	if err := c.soft(m.Before); err != nil {
		return err
	}
	for _, name := range m.Depends {
		if c.index.builtin[name] {
			continue
		}
		needed := c.index.modules[name]
		if needed == nil {
			return writ.Errorf(writ.CodeNotFound, "the module %s needs %s, which the kernel does not have", m.Name,
				name).
				WithHint("the package of the kernel is incomplete: unpack it again")
		}
		if err := c.add(needed); err != nil {
			return err
		}
	}
	c.state[m.Name] = done
	c.order = append(c.order, m)
	return c.soft(m.After)
}

// soft adds optional modules that exist. Cycles among them are allowed.
func (c *closure) soft(names []string) error {
	if c.hard {
		return nil
	}
	for _, name := range names {
		found, _ := c.index.Find(name)
		for _, m := range found {
			if c.state[m.Name] == open {
				continue
			}
			if err := c.add(m); err != nil {
				return err
			}
		}
	}
	return nil
}

// Names of the lists in a module directory.
const (
	depFile     = "modules.dep"
	aliasFile   = "modules.alias"
	softdepFile = "modules.softdep"
	builtinFile = "modules.builtin"
)

// Lists returns the lists of depmod for some modules, by file name.
func (x *Index) Lists(some []*Module) map[string][]byte {
	var dep, alias, softdep, builtin bytes.Buffer
	sorted := slices.SortedFunc(slices.Values(some), func(a, b *Module) int { return cmp.Compare(a.Path, b.Path) })
	for _, m := range sorted {
		fmt.Fprintf(&dep, "%s:", m.Path)
		for _, needed := range x.needs(m) {
			fmt.Fprintf(&dep, " %s", needed.Path)
		}
		dep.WriteByte('\n')
		for _, pattern := range m.Aliases {
			fmt.Fprintf(&alias, "alias %s %s\n", pattern, m.Name)
		}
		if len(m.Before)+len(m.After) > 0 {
			fmt.Fprintf(&softdep, "softdep %s%s%s\n", m.Name, words(" pre:", m.Before), words(" post:", m.After))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(x.builtin)) {
		fmt.Fprintf(&builtin, "kernel/%s.ko\n", name)
	}
	return map[string][]byte{
		depFile: dep.Bytes(), aliasFile: alias.Bytes(), softdepFile: softdep.Bytes(), builtinFile: builtin.Bytes(),
	}
}

// needs returns all modules that must be loaded before m, in reverse load order.
func (x *Index) needs(m *Module) []*Module {
	c := &closure{index: x, state: map[string]int{}, hard: true}
	if err := c.add(m); err != nil {
		return nil // Closure has already reported this error
	}
	all := c.order[:len(c.order)-1]
	slices.Reverse(all)
	return all
}

func words(title string, names []string) string {
	if len(names) == 0 {
		return ""
	}
	return title + " " + strings.Join(names, " ")
}

// Open reads the lists in a module directory. It does not open the modules.
func Open(dir fs.FS) (*Index, error) {
	x := &Index{modules: map[string]*Module{}, builtin: map[string]bool{}, files: dir}
	for _, list := range []struct {
		name string
		line func(string) error
	}{
		{builtinFile, func(line string) error { x.builtin[nameOf(line)] = true; return nil }},
		{depFile, x.depLine},
		{aliasFile, x.aliasLine},
		{softdepFile, x.softdepLine},
	} {
		text, err := fs.ReadFile(dir, list.name)
		if err != nil {
			return nil, fmt.Errorf("read the list of modules: %w", err)
		}
		for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
			if line := strings.TrimSpace(lines.Text()); line != "" && line[0] != '#' {
				if err := list.line(line); err != nil {
					return nil, fmt.Errorf("read %s: %w", list.name, err)
				}
			}
		}
	}
	return x, nil
}

func (x *Index) depLine(line string) error {
	file, needed, ok := strings.Cut(line, ":")
	if !ok || !fs.ValidPath(file) {
		return fmt.Errorf("%q names no module", line)
	}
	m := &Module{Name: nameOf(file), Path: file}
	for needs := range strings.FieldsSeq(needed) {
		m.Depends = append(m.Depends, nameOf(needs))
	}
	x.modules[m.Name] = m
	return nil
}

func (x *Index) aliasLine(line string) error {
	words := strings.Fields(line)
	if len(words) != 3 || words[0] != "alias" {
		return fmt.Errorf("%q is not an alias", line)
	}
	if m := x.modules[normal(words[2])]; m != nil {
		m.Aliases = append(m.Aliases, normalPattern(words[1]))
	}
	return nil
}

func (x *Index) softdepLine(line string) error {
	kind, rest, _ := strings.Cut(line, " ")
	name, text, _ := strings.Cut(rest, " ")
	if kind != "softdep" {
		return fmt.Errorf("%q is not a softdep", line)
	}
	if m := x.modules[normal(name)]; m != nil {
		m.softdep(text)
	}
	return nil
}

// matches reports whether an alias matches a shell pattern. It compares the literal prefix first, which rules out
// almost all patterns.
func matches(pattern, alias string) bool {
	wild := strings.IndexAny(pattern, "*?[\\")
	if wild < 0 {
		return pattern == alias
	}
	if !strings.HasPrefix(alias, pattern[:wild]) {
		return false
	}
	// path.Match treats slashes as separators, which they are not in aliases.
	pattern, alias = strings.ReplaceAll(pattern[wild:], "/", "\x01"), strings.ReplaceAll(alias[wild:], "/", "\x01")
	ok, err := path.Match(pattern, alias)
	return err == nil && ok
}

// Package modules knows the modules of a Linux kernel: which of them a device or another module needs, and in which order they are loaded. It
// reads this from the modules themselves, and writes and reads the lists that depmod and modprobe use. It must not know which devices a
// machine has, nor load anything.
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

// Module is one module.
type Module struct {
	Name     string   // with underscores, as /proc/modules has it
	Path     string   // below the directory of modules; in a list it ends with ".ko", however the package has compressed it
	Aliases  []string // patterns of what it serves, with underscores outside of brackets
	Depends  []string // names of modules that must be there before
	Before   []string // names or aliases of modules that should be there before, if there are any
	After    []string // the same for modules to load after it
	Firmware []string // names of files that it asks for
	License  string   // as its authors call it, such as "GPL"

	source string // the file that it was read from
}

// Index is the modules of one kernel.
type Index struct {
	modules map[string]*Module
	builtin map[string]bool // names of those that are part of the kernel
	files   fs.FS           // what they were read from
}

// normal is a name as the kernel has it: hyphens and underscores are the same.
func normal(name string) string { return strings.ReplaceAll(name, "-", "_") }

// normalPattern is the same for a pattern, where a hyphen between brackets stands for a range.
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

// nameOf is the name of the module in a file.
func nameOf(file string) string {
	name, _, _ := strings.Cut(path.Base(file), ".ko")
	return normal(name)
}

// Scan reads all modules below a directory, lib/modules/VERSION of a package. They may be compressed.
func Scan(dir fs.FS) (*Index, error) {
	x := &Index{modules: map[string]*Module{}, builtin: map[string]bool{}, files: dir}
	list, err := fs.ReadFile(dir, "modules.builtin")
	if err != nil {
		return nil, writ.Errorf(writ.CodeUsage, "the directory of modules cannot be read: %v", err).WithHint("it is lib/modules/VERSION of the kernel's package")
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
			return fmt.Errorf("%s and %s are modules of one name", other.source, file)
		}
		x.modules[m.Name] = m
		return nil
	})
	return x, err
}

// endings are those of the names of modules.
var endings = []string{".ko", ".ko.xz", ".ko.zst", ".ko.gz"}

func isModule(file string) bool {
	return slices.ContainsFunc(endings, func(ending string) bool { return strings.HasSuffix(file, ending) })
}

// largest bounds a module that is unpacked: the largest of Debian have some MiB.
const largest = 64 << 20

// read returns a module as the kernel loads it.
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

// Object returns the content of a module.
func (x *Index) Object(m *Module) ([]byte, error) { return read(x.files, cmp.Or(m.source, m.Path)) }

// Find returns the modules of a name or an alias, such as that of a device. It returns none, and builtin, if the kernel has it inside.
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

// Closure returns the modules of some names or aliases with all that they need, in an order in which they can be loaded. A name that no module
// has is an error, unless the kernel has it inside.
func (x *Index) Closure(names ...string) ([]*Module, error) {
	c := &closure{index: x, state: map[string]int{}}
	for _, name := range names {
		found, builtin := x.Find(name)
		if len(found) == 0 && !builtin {
			return nil, writ.Errorf(writ.CodeNotFound, "the kernel has no module %s", name).WithHint("`find lib/modules -name '*.ko*'` lists those of a package")
		}
		for _, m := range found {
			if err := c.add(m); err != nil {
				return nil, err
			}
		}
	}
	return c.order, nil
}

// closure is one being made.
type closure struct {
	index *Index
	state map[string]int // by name: open, then done
	order []*Module
	hard  bool // without what is only wanted
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
			return writ.Errorf(writ.CodeNotFound, "the module %s needs %s, which the kernel does not have", m.Name, name).
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

// soft adds modules that are wanted, as far as they are there. Two modules may want each other.
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

// The names of the lists below a directory of modules.
const (
	depFile     = "modules.dep"
	aliasFile   = "modules.alias"
	softdepFile = "modules.softdep"
	builtinFile = "modules.builtin"
)

// Lists returns the lists of some modules, by name, in the form of depmod.
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
	return map[string][]byte{depFile: dep.Bytes(), aliasFile: alias.Bytes(), softdepFile: softdep.Bytes(), builtinFile: builtin.Bytes()}
}

// needs returns all modules that must be there before one, the last to load first.
func (x *Index) needs(m *Module) []*Module {
	c := &closure{index: x, state: map[string]int{}, hard: true}
	if err := c.add(m); err != nil {
		return nil // Closure says so before anything is written
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

// Open reads the lists below a directory of modules. It opens no module.
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
		return fmt.Errorf("%q is no alias", line)
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
		return fmt.Errorf("%q is no softdep", line)
	}
	if m := x.modules[normal(name)]; m != nil {
		m.softdep(text)
	}
	return nil
}

// matches reports whether an alias is one of a pattern with the wildcards of a shell. Almost no pattern does, so most are refused by how they
// begin.
func matches(pattern, alias string) bool {
	wild := strings.IndexAny(pattern, "*?[\\")
	if wild < 0 {
		return pattern == alias
	}
	if !strings.HasPrefix(alias, pattern[:wild]) {
		return false
	}
	// Match treats slashes as borders of names, which aliases do not have.
	pattern, alias = strings.ReplaceAll(pattern[wild:], "/", "\x01"), strings.ReplaceAll(alias[wild:], "/", "\x01")
	ok, err := path.Match(pattern, alias)
	return err == nil && ok
}

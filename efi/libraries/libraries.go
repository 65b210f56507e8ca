// Package libraries finds the shared libraries that Linux programs need, with the search rules of glibc's loader. It
// parses the programs and never runs them, so the result is the same on every machine. It does not depend on the
// purpose of the programs or the source of the files.
package libraries

import (
	"bytes"
	"cmp"
	"debug/elf"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Built-in paths of the loader in Debian's glibc.
const (
	loader = "/lib64/ld-linux-x86-64.so.2"
	usual  = "/usr/lib/x86_64-linux-gnu"
)

// defaults lists the directories that the loader searches last, in order.
var defaults = []string{"/lib/x86_64-linux-gnu", usual, "/lib", "/usr/lib"}

// Program is a program whose libraries are needed, or a library that a program loads at run time.
type Program struct {
	Name string // path in the image, for example /usr/bin/tool
	From string // path among the files of packages, "" if it is not from a package
	Data []byte
}

// Library is a shared library that a program needs.
type Library struct {
	Name string // path in the image at which the loader finds the library
	From string // path among the files of packages, with links resolved
	Data []byte
}

// Set holds all needed libraries.
type Set struct {
	Libraries []Library // sorted by name
	// Loading lists programs and libraries that can load further libraries at run time. The files do not contain the
	// names of these libraries.
	Loading []string
}

// Closure returns the libraries that programs need directly or indirectly. It searches the files of packages and the
// programs themselves. The error lists all missing libraries.
func Closure(files fs.FS, programs []Program) (*Set, error) {
	s := &search{tree: Tree{files}, own: map[string]bool{}, taken: map[string]*Library{}, loading: map[string]bool{}}
	for _, p := range programs {
		s.own[p.Name] = true
	}
	for _, p := range programs {
		if err := s.program(p); err != nil {
			return nil, err
		}
	}
	if len(s.lacking) > 0 {
		return nil, lackError(s.lacking)
	}
	set := &Set{}
	for _, l := range s.taken {
		set.Libraries = append(set.Libraries, *l)
	}
	slices.SortFunc(set.Libraries, func(a, b Library) int { return strings.Compare(a.Name, b.Name) })
	for name := range s.loading {
		set.Loading = append(set.Loading, name)
	}
	slices.Sort(set.Loading)
	return set, nil
}

// search holds the state of a search for all programs.
type search struct {
	tree    Tree
	own     map[string]bool     // names of the programs
	taken   map[string]*Library // by name
	loading map[string]bool
	lacking []lack
}

// object is a program or a library, with the properties that the loader uses.
type object struct {
	name, from     string
	needed         []string
	rpath, runpath []string // directories that the loader searches first; may contain tokens such as $ORIGIN
	by             *object  // the object that needs it, nil for a program
}

// read parses a file. It returns false if the loader would skip the file, because it is for another architecture.
func (s *search) read(name, from string, data []byte, by *object) (*object, string, bool) {
	file, err := elf.NewFile(bytes.NewReader(data))
	if err != nil || file.Class != elf.ELFCLASS64 || file.Machine != elf.EM_X86_64 {
		return nil, "", false
	}
	o := &object{
		name: name, from: from, by: by, rpath: directories(file, elf.DT_RPATH),
		runpath: directories(file, elf.DT_RUNPATH),
	}
	o.needed, _ = file.ImportedLibraries() // the error only means that it needs no libraries
	symbols, _ := file.ImportedSymbols()
	if slices.ContainsFunc(symbols,
		func(s elf.ImportedSymbol) bool { return s.Name == "dlopen" || s.Name == "dlmopen" }) {
		s.loading[name] = true
	}
	return o, interpreter(file), true
}

func directories(file *elf.File, tag elf.DynTag) (dirs []string) {
	texts, _ := file.DynString(tag)
	for _, text := range texts {
		dirs = append(dirs, strings.Split(text, ":")...)
	}
	return slices.DeleteFunc(dirs, func(dir string) bool { return dir == "" })
}

// interpreter returns the path of the loader that a program requests, "" if it requests none.
func interpreter(file *elf.File) string {
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP {
			text := make([]byte, min(p.Filesz, 4<<10))
			n, _ := p.ReadAt(text, 0)
			name, _, _ := strings.Cut(string(text[:n]), "\x00")
			return cmp.Or(name, "?")
		}
	}
	return ""
}

// program finds the libraries of a program. Like the loader, it searches each name once per process.
func (s *search) program(p Program) error {
	first, interpreter, ok := s.read(p.Name, p.From, p.Data, nil)
	if !ok {
		return nil
	}
	if interpreter != "" && interpreter != loader {
		return otherLoader(p.Name, interpreter)
	}
	if interpreter != "" || len(first.needed) > 0 {
		s.findLoader(first)
	}
	known := map[string]bool{path.Base(loader): true}
	for queue := []*object{first}; len(queue) > 0; queue = queue[1:] {
		for _, name := range queue[0].needed {
			if known[name] {
				continue
			}
			known[name] = true
			if found := s.find(queue[0], name); found != nil {
				queue = append(queue, found)
			}
		}
	}
	return nil
}

// findLoader adds the loader itself.
func (s *search) findLoader(program *object) {
	if s.own[loader] || s.taken[loader] != nil {
		return
	}
	data, from, err := s.tree.Read(loader)
	if err != nil {
		s.lack(path.Base(loader), program)
		return
	}
	s.taken[loader] = &Library{loader, from, data}
}

// find finds a library that an object needs. It returns nil if the library is missing, which it records, or if it is
// one of the programs, whose libraries are searched separately.
func (s *search) find(of *object, name string) *object {
	dir, base := path.Split(name)
	places := of.places()
	switch {
	case path.IsAbs(dir): // the loader searches only there
		places = []place{{path.Clean(dir), path.Clean(dir), path.Clean(dir)}}
	case dir != "": // the place depends on the working directory of the process
		places = nil
	}
	for _, p := range places {
		if s.own[path.Join(p.seen, base)] {
			return nil
		}
		if p.from == "" {
			continue
		}
		data, from, err := s.tree.Read(path.Join(p.from, base))
		if err != nil {
			continue
		}
		at := path.Join(p.into, base)
		if found, _, ok := s.read(at, from, data, of); ok {
			s.taken[at] = &Library{at, from, data}
			return found
		}
	}
	s.lack(name, of)
	return nil
}

func (s *search) lack(name string, of *object) {
	l := lack{name, of.name}
	if !slices.ContainsFunc(s.lacking, func(other lack) bool { return other.library == name }) {
		s.lacking = append(s.lacking, l)
	}
}

// place is a directory that the loader searches.
type place struct {
	seen string // path at run time
	from string // the same directory among the files of packages, "" if it is not from a package
	into string // directory into which a found library is put
}

// places returns the directories that the loader searches for the dependencies of an object, in the order of ld.so(8):
// DT_RPATH of the object and of the objects that need it, except those with a DT_RUNPATH; then DT_RUNPATH of the
// object; then the defaults.
func (o *object) places() (all []place) {
	for above := o; above != nil && len(o.runpath) == 0; above = above.by {
		if len(above.runpath) == 0 {
			all = append(all, above.expand(above.rpath)...)
		}
	}
	all = append(all, o.expand(o.runpath)...)
	for _, dir := range defaults {
		all = append(all, place{dir, dir, usual})
	}
	return all
}

// expand replaces the tokens of ld.so(8) in directories. Directories with a machine-dependent token are omitted.
func (o *object) expand(dirs []string) (all []place) {
	for _, dir := range dirs {
		with := func(origin string) string {
			text := strings.NewReplacer("${ORIGIN}", origin, "$ORIGIN", origin, "${LIB}", "lib/x86_64-linux-gnu",
				"$LIB", "lib/x86_64-linux-gnu").Replace(dir)
			if strings.Contains(text, "$") || !path.IsAbs(text) {
				return ""
			}
			return path.Clean(text)
		}
		p := place{seen: with(path.Dir(o.name))}
		if o.from != "" || !strings.Contains(dir, "ORIGIN") {
			p.from = with(path.Dir("/" + o.from))
		}
		if p.seen != "" {
			p.into = p.seen
			all = append(all, p)
		}
	}
	return all
}

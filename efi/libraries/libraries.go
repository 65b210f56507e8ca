// Package libraries finds the shared libraries that programs for Linux need, where the loader of glibc looks for them. It reads the programs and
// starts none, so equal files have equal libraries on every machine. It must not know what the programs are for, nor where the files are from.
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

// The places that the loader of Debian's glibc knows by itself.
const (
	loader = "/lib64/ld-linux-x86-64.so.2"
	usual  = "/usr/lib/x86_64-linux-gnu"
)

// defaults are the directories in which it looks last, in their order.
var defaults = []string{"/lib/x86_64-linux-gnu", usual, "/lib", "/usr/lib"}

// Program is one that needs libraries. It may also be a library that a program loads while it runs.
type Program struct {
	Name string // where it will be, as /usr/bin/tool
	From string // where it is among the files of packages; "" if it is not from there
	Data []byte
}

// Library is one that a program needs.
type Library struct {
	Name string // where it has to be
	From string // where it is among the files of packages, without links
	Data []byte
}

// Set is all that programs need.
type Set struct {
	Libraries []Library // by their names
	// Loading are programs and libraries that can load more libraries while they run. Which those are is not written in them.
	Loading []string
}

// Closure returns the libraries that programs need, and those that these need. It finds them among the files of packages, or among the
// programs themselves. The error has every library that there is not.
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

// search looks for the libraries of all programs.
type search struct {
	tree    Tree
	own     map[string]bool     // names of the programs
	taken   map[string]*Library // by their names
	loading map[string]bool
	lacking []lack
}

// object is a program or a library, as the loader sees it.
type object struct {
	name, from     string
	needed         []string
	rpath, runpath []string // directories in which the loader looks first, with words such as $ORIGIN
	by             *object  // which needs it, nil for a program
}

// read reads what the loader would of a file. It is false if the loader would pass the file over, because it is none for this machine.
func (s *search) read(name, from string, data []byte, by *object) (*object, string, bool) {
	file, err := elf.NewFile(bytes.NewReader(data))
	if err != nil || file.Class != elf.ELFCLASS64 || file.Machine != elf.EM_X86_64 {
		return nil, "", false
	}
	o := &object{name: name, from: from, by: by, rpath: directories(file, elf.DT_RPATH), runpath: directories(file, elf.DT_RUNPATH)}
	o.needed, _ = file.ImportedLibraries() // one without any says so by an error, too
	symbols, _ := file.ImportedSymbols()
	if slices.ContainsFunc(symbols, func(s elf.ImportedSymbol) bool { return s.Name == "dlopen" || s.Name == "dlmopen" }) {
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

// interpreter is the loader that a program names, "" if it names none.
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

// program finds the libraries of one program. The loader looks for a name once in a process, so it does here.
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

// findLoader takes the loader itself.
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

// find finds a library that an object needs. It returns nil for one that there is not, which is noted, and for one of the programs, whose own
// libraries are found anyway.
func (s *search) find(of *object, name string) *object {
	dir, base := path.Split(name)
	places := of.places()
	switch {
	case path.IsAbs(dir): // the loader looks there only
		places = []place{{path.Clean(dir), path.Clean(dir), path.Clean(dir)}}
	case dir != "": // where it is depends on the directory in which the program is started
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

// place is a directory in which the loader looks.
type place struct {
	seen string // by the loader
	from string // the same directory among the files of packages; "" if it is none of theirs
	into string // where a library that is found there has to be
}

// places are the directories in which the loader looks for what an object needs, as ld.so(8) has it: DT_RPATH of the object and of those
// that need it, as far as they have no DT_RUNPATH; then DT_RUNPATH of the object alone; then those that it knows by itself.
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

// expand replaces the words of ld.so(8) in directories. One with a word that depends on the machine is left out.
func (o *object) expand(dirs []string) (all []place) {
	for _, dir := range dirs {
		with := func(origin string) string {
			text := strings.NewReplacer("${ORIGIN}", origin, "$ORIGIN", origin, "${LIB}", "lib/x86_64-linux-gnu", "$LIB", "lib/x86_64-linux-gnu").Replace(dir)
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

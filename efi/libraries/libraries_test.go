package libraries

import (
	"debug/elf"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"writ"
	"writ/internal/test/testenv"
)

// If the packages are installed on this machine, the result equals the libraries that glibc's loader loads.
func TestTheLibrariesAreThoseThatTheLoaderLoads(t *testing.T) {
	if _, err := os.Stat(loader); err != nil || runtime.GOARCH != "amd64" {
		t.Skipf("this machine has no %s", loader)
	}
	compared := 0
	for _, name := range []string{"mkfs.btrfs", "mkfs.ext4", "redis-server", "runc", "containerd", "curl", "qemu-img", "postgres"} {
		program, err := filepath.EvalSymlinks(testenv.Need(t, name))
		if err != nil {
			t.Fatal(err)
		}
		said, err := exec.Command(loader, "--list", program).Output()
		if err != nil { // statically linked
			t.Logf("%s: %v", program, err)
			continue
		}
		data, err := os.ReadFile(program)
		if err != nil {
			t.Fatal(err)
		}
		set, err := Closure(os.DirFS("/"), []Program{{Name: program, From: program[1:], Data: data}})
		if err != nil {
			t.Fatal(err)
		}
		loads, finds := []string{}, []string{}
		for line := range strings.Lines(string(said)) { // libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f…)
			fields := strings.Fields(line)
			switch {
			case strings.HasPrefix(fields[0], "linux-vdso"):
			case len(fields) > 2 && fields[1] == "=>":
				loads = append(loads, path.Base(fields[0])+" "+fields[2])
			default:
				loads = append(loads, path.Base(fields[0])+" "+fields[0])
			}
		}
		for i, one := range loads {
			base, file, _ := strings.Cut(one, " ")
			real, err := filepath.EvalSymlinks(file)
			if err != nil {
				t.Fatal(err)
			}
			loads[i] = base + " " + real
		}
		for _, l := range set.Libraries {
			finds = append(finds, path.Base(l.Name)+" /"+l.From)
		}
		slices.Sort(loads)
		slices.Sort(finds)
		if !slices.Equal(loads, finds) {
			t.Errorf("%s: the loader loads\n%s\nand here are\n%s", program, strings.Join(loads, "\n"), strings.Join(finds, "\n"))
		}
		compared++
	}
	if compared < 4 {
		t.Errorf("%d programs were compared", compared)
	}
}

// set runs Closure on files, given by their paths in packages. "PATH -> TARGET" is a link.
func set(t *testing.T, files map[string]dynamic, programs ...Program) (*Set, error) {
	t.Helper()
	there := fstest.MapFS{}
	for name, d := range files {
		if link, target, ok := strings.Cut(name, " -> "); ok {
			there[link] = &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink}
		} else {
			there[name] = &fstest.MapFile{Data: d.file(t)}
		}
	}
	return Closure(there, programs)
}

// names lists libraries with the files that they come from.
func names(s *Set) (all []string) {
	for _, l := range s.Libraries {
		all = append(all, l.Name+" "+l.From)
	}
	return all
}

const (
	fromLoader = "lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"
	loaderLink = "lib64/ld-linux-x86-64.so.2 -> /" + fromLoader
	listed     = loader + " " + fromLoader
)

func TestLibrariesAreFoundWhereTheLoaderLooks(t *testing.T) {
	for name, tt := range map[string]struct {
		program dynamic
		files   map[string]dynamic
		want    []string
	}{
		"by the name of their interface": {
			dynamic{needed: []string{"liba.so.1"}},
			map[string]dynamic{"usr/lib/x86_64-linux-gnu/liba.so.1 -> liba.so.1.2.3": {}, "usr/lib/x86_64-linux-gnu/liba.so.1.2.3": {}},
			[]string{"/usr/lib/x86_64-linux-gnu/liba.so.1 usr/lib/x86_64-linux-gnu/liba.so.1.2.3"},
		},
		"libraries of libraries, in a circle": {
			dynamic{needed: []string{"liba.so.1"}},
			map[string]dynamic{"lib/x86_64-linux-gnu/liba.so.1": {needed: []string{"libb.so.2", "ld-linux-x86-64.so.2"}}, "usr/lib/libb.so.2": {needed: []string{"liba.so.1"}}},
			[]string{"/usr/lib/x86_64-linux-gnu/liba.so.1 lib/x86_64-linux-gnu/liba.so.1", "/usr/lib/x86_64-linux-gnu/libb.so.2 usr/lib/libb.so.2"},
		},
		"the first directory counts": {
			dynamic{needed: []string{"liba.so.1"}},
			map[string]dynamic{"lib/x86_64-linux-gnu/liba.so.1": {}, "usr/lib/x86_64-linux-gnu/liba.so.1": {}},
			[]string{"/usr/lib/x86_64-linux-gnu/liba.so.1 lib/x86_64-linux-gnu/liba.so.1"},
		},
		"a path is not a name": {
			dynamic{needed: []string{"/opt/../opt/lib/liba.so.1"}, runpath: "/none"},
			map[string]dynamic{"opt/lib/liba.so.1": {}, "usr/lib/x86_64-linux-gnu/opt/lib/liba.so.1": {}},
			[]string{"/opt/lib/liba.so.1 opt/lib/liba.so.1"},
		},
		"not one for another machine": {
			dynamic{needed: []string{"liba.so.1"}},
			map[string]dynamic{"lib/x86_64-linux-gnu/liba.so.1": {machine: elf.EM_AARCH64}, "usr/lib/liba.so.1": {}},
			[]string{"/usr/lib/x86_64-linux-gnu/liba.so.1 usr/lib/liba.so.1"},
		},
		"directories of the program; the ones of a library are only for that library": {
			dynamic{needed: []string{"liba.so.1", "libb.so.1"}, runpath: "$ORIGIN/../lib/tool:/opt/lib"},
			map[string]dynamic{"usr/lib/tool/liba.so.1": {needed: []string{"libc.so.6"}, runpath: "${ORIGIN}/own"}, "opt/lib/libb.so.1": {}, "usr/lib/tool/own/libc.so.6": {}},
			[]string{"/opt/lib/libb.so.1 opt/lib/libb.so.1", "/usr/lib/tool/liba.so.1 usr/lib/tool/liba.so.1", "/usr/lib/tool/own/libc.so.6 usr/lib/tool/own/libc.so.6"},
		},
		"DT_RPATH also counts for libraries": {
			dynamic{needed: []string{"liba.so.1"}, rpath: "/opt/lib"},
			map[string]dynamic{"opt/lib/liba.so.1": {needed: []string{"libb.so.1"}}, "opt/lib/libb.so.1": {}, "usr/lib/libb.so.1": {}},
			[]string{"/opt/lib/liba.so.1 opt/lib/liba.so.1", "/opt/lib/libb.so.1 opt/lib/libb.so.1"},
		},
		"but not for one with DT_RUNPATH": {
			dynamic{needed: []string{"liba.so.1"}, rpath: "/opt/lib"},
			map[string]dynamic{"opt/lib/liba.so.1": {needed: []string{"libb.so.1"}, runpath: "/none"}, "opt/lib/libb.so.1": {}, "usr/lib/libb.so.1": {}},
			[]string{"/opt/lib/liba.so.1 opt/lib/liba.so.1", "/usr/lib/x86_64-linux-gnu/libb.so.1 usr/lib/libb.so.1"},
		},
		"DT_RUNPATH is not for libraries": {
			dynamic{needed: []string{"liba.so.1"}, runpath: "/opt/lib"},
			map[string]dynamic{"opt/lib/liba.so.1": {needed: []string{"libb.so.1"}}, "opt/lib/libb.so.1": {}, "usr/lib/libb.so.1": {}},
			[]string{"/opt/lib/liba.so.1 opt/lib/liba.so.1", "/usr/lib/x86_64-linux-gnu/libb.so.1 usr/lib/libb.so.1"},
		},
	} {
		tt.files[loaderLink], tt.files[fromLoader] = dynamic{}, dynamic{}
		tt.program.interpreter = loader
		s, err := set(t, tt.files, Program{"/usr/bin/tool", "usr/bin/tool", tt.program.file(t)})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got, want := names(s), append([]string{listed}, tt.want...); !slices.Equal(got, want) {
			t.Errorf("%s: the libraries are %q, want %q", name, got, want)
		}
	}
}

func TestReleasesWithAllBelowUsrHaveTheSameLibraries(t *testing.T) {
	s, err := set(t, map[string]dynamic{
		"usr/lib64/ld-linux-x86-64.so.2 -> ../lib/x86_64-linux-gnu/ld-linux-x86-64.so.2": {}, "usr/" + fromLoader: {}, "usr/lib/x86_64-linux-gnu/liba.so.1": {},
	}, Program{"/usr/bin/tool", "usr/bin/tool", dynamic{interpreter: loader, needed: []string{"liba.so.1"}, runpath: "/lib/x86_64-linux-gnu"}.file(t)})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := names(s), []string{"/lib/x86_64-linux-gnu/liba.so.1 usr/lib/x86_64-linux-gnu/liba.so.1", loader + " usr/" + fromLoader}; !slices.Equal(got, want) {
		t.Errorf("the libraries are %q, want %q", got, want)
	}
}

// Files of the operator take precedence over packages. A library among them brings its dependencies, because a program
// may load it at run time.
func TestLibrariesOfTheOperatorCount(t *testing.T) {
	s, err := set(t, map[string]dynamic{loaderLink: {}, fromLoader: {}, "usr/lib/liba.so.1": {}, "usr/lib/libb.so.1": {}},
		Program{Name: "/usr/bin/tool", Data: dynamic{interpreter: loader, needed: []string{"liba.so.1"}, runpath: "$ORIGIN/own", dlopen: true}.file(t)},
		Program{Name: "/usr/bin/own/liba.so.1", Data: dynamic{needed: []string{"libb.so.1"}}.file(t)},
		Program{Name: "/etc/tool.conf", Data: []byte("a text")},
		Program{Name: "/usr/bin/static", Data: dynamic{}.file(t)},
	)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := names(s), []string{listed, "/usr/lib/x86_64-linux-gnu/libb.so.1 usr/lib/libb.so.1"}; !slices.Equal(got, want) {
		t.Errorf("the libraries are %q, want %q", got, want)
	}
	if !slices.Equal(s.Loading, []string{"/usr/bin/tool"}) {
		t.Errorf("more libraries are loaded by %q", s.Loading)
	}
	if s, err := Closure(nil, []Program{{Name: "/usr/bin/static", Data: dynamic{}.file(t)}}); err != nil || len(s.Libraries) > 0 {
		t.Errorf("a program that needs none has %+v, %v", s, err)
	}
}

func TestLibrariesThatThereAreNotAreNamedTogether(t *testing.T) {
	tool := dynamic{interpreter: loader, needed: []string{"liba.so.1", "libb-2.so.3", "libodd.so"}}
	_, err := set(t, map[string]dynamic{"usr/lib/liba.so.1": {needed: []string{"libz.so.1"}}, "usr/lib/libb-2.so.3 -> libb-2.so.3": {}}, Program{"/usr/bin/tool", "usr/bin/tool", tool.file(t)})
	const want = "the packages lack libraries: ld-linux-x86-64.so.2 for /usr/bin/tool, libb-2.so.3 for /usr/bin/tool, libodd.so for /usr/bin/tool, libz.so.1 for /usr/lib/x86_64-linux-gnu/liba.so.1"
	e, ok := errors.AsType[*writ.Error](err)
	if !ok || e.Message != want || !strings.Contains(e.Hint, "apt-get download libc6 libb-2-3 zlib1g.") || !strings.Contains(e.Hint, "apt-file search libodd.so") {
		t.Errorf("error = %v\nhint: %s", err, e.Hint)
	}
	_, err = set(t, map[string]dynamic{loaderLink: {}, fromLoader: {}, "usr/bin/writ": {}}, Program{"/usr/bin/tool", "usr/bin/tool", dynamic{interpreter: loader, needed: []string{"../../bin/writ"}}.file(t)})
	if err == nil || !strings.Contains(err.Error(), "../../bin/writ for /usr/bin/tool") {
		t.Errorf("a name that leads elsewhere is followed: %v", err)
	}
	_, err = Closure(fstest.MapFS{}, []Program{{Name: "/usr/bin/tool", Data: dynamic{interpreter: "/lib/ld-musl-x86_64.so.1"}.file(t)}})
	if err == nil || !strings.Contains(err.Error(), "ld-musl") || writ.AsError(err).Hint == "" {
		t.Errorf("error for another loader = %v", err)
	}
}

func TestPackagesAreNamedByTheirLibraries(t *testing.T) {
	for library, want := range map[string]string{
		"libc.so.6": "libc6", "libgcc_s.so.1": "libgcc-s1", "libcom_err.so.2": "libcom-err2", "libbz2.so.1.0": "libbz2-1.0", "libpcre2-8.so.0": "libpcre2-8-0", "libz.so.1": "zlib1g",
		"libstdc++.so.6": "libstdc++6", "libdevmapper.so.1.02.1": "libdevmapper1.02.1", "libsystemd-shared-252.so": "", "tool.so.1": "",
	} {
		if got := PackageOf(library); got != want {
			t.Errorf("%s is of the package %q, want %q", library, got, want)
		}
	}
}

package client

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"writ"
	"writ/internal/lazyregexp"
	"writ/internal/meant"
	"writ/scripts"
	"writ/scripts/check"
	"writ/scripts/library"
)

// Script is a script with its modules and the report of its check.
type Script struct {
	Path   string
	Bundle scripts.Bundle
	Report check.Report // diagnostics name files relative to Path; library modules by their name only

	planned *lastPlan // nil in a Script that neither ReadScript nor NewScript made
}

// lastPlan holds the newest plan of a script, because building an order plans it several times with equal inputs.
type lastPlan struct {
	inputs scripts.Inputs
	plan   scripts.Plan
}

// Modules maps import names of the author's own modules to files outside the folder of the script.
type Modules map[string]string

var moduleName = lazyregexp.New(`^[A-Za-z0-9_][A-Za-z0-9_.+-]*(/[A-Za-z0-9_][A-Za-z0-9_.+-]*)*(@[0-9]+)?$`)

// ParseModules parses words like "site/net@2=./net.tengo". Names of built-in and library modules are rejected.
func ParseModules(words []string) (Modules, error) {
	modules := make(Modules, len(words))
	for _, w := range words {
		name, file, ok := strings.Cut(w, "=")
		switch _, twice := modules[name]; {
		case !ok || name == "" || file == "":
			return nil, writ.Errorf(writ.CodeUsage, "--module %q is not of the form NAME=FILE", w).
				WithHint("it looks like site/net@2=./net.tengo")
		case twice:
			return nil, writ.Errorf(writ.CodeUsage, "--module %q is given twice", name)
		case strings.HasPrefix(name, library.Prefix):
			return nil, writ.Errorf(writ.CodeUsage, "--module %q: names that begin with %s belong to the library", name,
				library.Prefix).
				WithHint("choose another name, like site/%s", strings.TrimPrefix(name, library.Prefix))
		case scripts.BuiltIn(name):
			return nil, writ.Errorf(writ.CodeUsage, "--module %q: a module of this name is built in", name).
				WithHint("choose another name, like site/%s", name)
		case !moduleName.MatchString(name):
			return nil, writ.Errorf(writ.CodeUsage, "--module %q is not a valid module name", name).
				WithHint("it looks like site/net@2")
		}
		modules[name] = file
	}
	return modules, nil
}

// maxFile limits the bytes read from one file. The check rejects a longer file with a better message.
const maxFile = scripts.MaxSource + 1

// ReadScript reads and checks a script. A module that is neither built in nor in the library is read from the file in
// `own`, or from the folder of the script as NAME.tengo.
func ReadScript(path string, own Modules) (Script, error) {
	text, err := readFile(path)
	if err != nil {
		return Script{}, NoScript(path, err)
	}
	return ReadScriptAs(path, text, own)
}

// ReadScriptAs checks text as if it were in the file at path. The file need not exist, because an editor may not have
// saved it yet.
func ReadScriptAs(path string, text []byte, own Modules) (Script, error) {
	if bytes.IndexByte(text, 0) >= 0 { // otherwise each byte of a binary would be an error
		return Script{}, writ.Errorf(writ.CodeUsage, "%s is a binary file and not a script", path).
			WithHint("give a script, whose name ends in .tengo, or a file that `writ sign` wrote")
	}
	beside, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return Script{}, NoScript(path, err)
	}
	defer beside.Close()
	bundle, err := scripts.Resolve(scripts.Source{Name: filepath.Base(path), Text: text},
		func(module string) ([]byte, error) {
			if file, ok := own[module]; ok {
				return readOwn(module, file)
			}
			if !fs.ValidPath(module) {
				return nil, fs.ErrNotExist
			}
			text, err := readStart(beside.FS(), module+".tengo")
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, writ.Errorf(writ.CodeUsage, "cannot read the module %q: %v", module, err).
					WithHint("modules lie in the folder of the script or below; --module NAME=FILE names a file elsewhere")
			}
			return text, err
		})
	if err != nil {
		return Script{}, fmt.Errorf("read the script: %w", err)
	}
	s := Script{Path: path, Bundle: bundle, Report: check.Check(bundle), planned: new(lastPlan)}
	for i := range s.Report.Diagnostics {
		d := &s.Report.Diagnostics[i]
		d.File = s.file(d.File, own)
	}
	return s, nil
}

// readOwn reads a module named on the command line. A missing file is an error without a fallback.
func readOwn(module, file string) ([]byte, error) {
	text, err := readFile(file)
	if err != nil {
		return nil, writ.Errorf(writ.CodeUsage, "cannot read the module %q: %v", module, err)
	}
	return text, nil
}

// file returns the path of a source of the bundle.
func (s Script) file(source string, own Modules) string {
	switch file, named := own[source]; {
	case source == s.Bundle.Main.Name:
		return s.Path
	case named:
		return file
	case strings.HasPrefix(source, library.Prefix):
		return source
	default:
		return filepath.Join(filepath.Dir(s.Path), source+".tengo")
	}
}

// NewScript checks a script in memory. It can import only built-in modules and modules of the library.
func NewScript(name string, text []byte) Script {
	bundle, err := scripts.Resolve(scripts.Source{Name: name, Text: text},
		func(string) ([]byte, error) { return nil, fs.ErrNotExist })
	if err != nil {
		panic(err) // unreachable: no file was read
	}
	return Script{Path: name, Bundle: bundle, Report: check.Check(bundle), planned: new(lastPlan)}
}

// readFile reads the start of a file. Errors contain the path as given.
func readFile(path string) ([]byte, error) {
	text, err := readStart(os.DirFS(filepath.Dir(path)), filepath.Base(path))
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		e.Path = path
	}
	return text, err
}

func readStart(dir fs.FS, name string) ([]byte, error) {
	info, err := fs.Stat(dir, name) // before opening: opening a pipe blocks until it has a writer
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: name, Err: errors.New("not a regular file")}
	}
	f, err := dir.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text := make([]byte, min(info.Size(), maxFile))
	n, err := io.ReadFull(f, text)
	return text[:n], err
}

// mostSuggested limits the scripts of a directory that a hint lists.
const mostSuggested = 3

// NoScript returns the error for a script that cannot be read, with a hint that fits the argument: the address of a
// download, standard input, a directory or a mistyped name.
func NoScript(path string, err error) *writ.Error {
	info, _ := os.Stat(path)
	switch scheme, _, isURL := strings.Cut(path, "://"); {
	case isURL && !strings.ContainsAny(scheme, `/\`): // not repeated, because an address can contain a password
		return writ.Errorf(writ.CodeUsage, "the script is an address and not a file").
			WithHint("download and read it first: `curl -fsSLO URL`, then `writ check FILE`")
	case path == "-" || path == "/dev/stdin":
		return writ.Errorf(writ.CodeUsage, "the script is the standard input and not a file").
			WithHint("write it to a file first; `writ check --stdin` checks a script without a file")
	case info != nil && info.IsDir():
		return writ.Errorf(writ.CodeUsage, "%s is a directory and not a script", path).WithHint("%s", scriptsIn(path))
	case errors.Is(err, fs.ErrNotExist):
		return writ.Errorf(writ.CodeUsage, "cannot read the script: %w", err).WithHint("%s", scriptLike(path))
	}
	return writ.Errorf(writ.CodeUsage, "cannot read the script: %w", err).
		WithHint("give the path of an existing file that you may read")
}

// scriptsIn returns the hint for a directory: some of its scripts.
func scriptsIn(dir string) string {
	var found []string
	for _, name := range scriptNames(dir) {
		found = append(found, filepath.Join(dir, name))
	}
	switch n := len(found); {
	case n == 0:
		return "it has no script; a script is a file that ends in .tengo"
	case n == 1:
		return "name the script in it: " + found[0]
	case n > mostSuggested:
		return fmt.Sprintf("name one of its %d scripts: %s, …", n, strings.Join(found[:mostSuggested], ", "))
	default:
		return "name one of its scripts: " + strings.Join(found, ", ")
	}
}

// scriptNames lists the scripts of a directory, without tests.
func scriptNames(dir string) (names []string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if name := e.Name(); !e.IsDir() && strings.HasSuffix(name, ".tengo") && !scripts.IsTest(name) {
			names = append(names, name)
		}
	}
	return names
}

// scriptLike returns the hint for a missing file: an existing script with a similar path.
func scriptLike(path string) string {
	if slashed := strings.ReplaceAll(path, `\`, "/"); slashed != path {
		if _, err := os.Stat(slashed); err == nil {
			return fmt.Sprintf("did you mean %q? Paths have slashes here", slashed)
		}
	}
	dir, name := filepath.Split(path)
	if closest := meant.Closest(name, scriptNames(filepath.Dir(path))); closest != "" {
		return fmt.Sprintf("did you mean %q?", dir+closest)
	}
	return "give the path of an existing file that you may read"
}

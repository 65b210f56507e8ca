package client

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"writ"
	"writ/internal/meant"
	"writ/scripts"
)

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
		WithHint("give the path of a file that is there and that you may read")
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
	return "give the path of a file that is there and that you may read"
}

package failpoint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// source is one function of the program.
type source struct {
	where string // "folder.Function"
	at    string
	body  ast.Node
}

// sources parses the program, without its tests and what is generated.
func sources(t *testing.T) (all []source, names map[string]Point) {
	t.Helper()
	root, names := filepath.Join("..", ".."), map[string]Point{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "tools"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, ".gen.go"):
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, 0)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		if folder == filepath.Join("internal", "failpoint") {
			constants(file, names)
			return nil
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Body != nil {
				all = append(all, source{filepath.ToSlash(folder) + "." + f.Name.Name, set.Position(f.Pos()).String(), f.Body})
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all, names
}

// constants collects the points that have a constant.
func constants(file *ast.File, names map[string]Point) {
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "Point" && len(spec.Values) == 1 {
			value := spec.Values[0].(*ast.BasicLit).Value
			names[spec.Names[0].Name] = Point(strings.Trim(value, `"`))
		}
		return true
	})
}

// calls returns the calls in a function whose name ends so: "Journal.Write" is that of any s.Journal.Write.
func calls(body ast.Node, names ...string) (all []*ast.CallExpr) {
	ast.Inspect(body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			called := "." + dotted(call.Fun)
			if slices.ContainsFunc(names, func(name string) bool { return strings.HasSuffix(called, "."+name) }) {
				all = append(all, call)
			}
		}
		return true
	})
	return all
}

// dotted writes a selector as in its source, with () for a call in it.
func dotted(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return dotted(e.X) + "." + e.Sel.Name
	case *ast.CallExpr:
		return dotted(e.Fun) + "()"
	default:
		return "?"
	}
}

// TestEveryPlaceIsWhereItSays compares the list with the code: each point is named in exactly the functions that its place says.
func TestEveryPlaceIsWhereItSays(t *testing.T) {
	all, names := sources(t)
	found := map[Point][]string{}
	for _, f := range all {
		ast.Inspect(f.body, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && dotted(s.X) == "failpoint" && names[s.Sel.Name] != "" {
				if p := names[s.Sel.Name]; !slices.Contains(found[p], f.where) {
					found[p] = append(found[p], f.where)
				}
			}
			return true
		})
	}
	want := map[Point][]string{}
	for i, place := range Places {
		if place.Where != "" {
			want[place.Point] = strings.Fields(place.Where)
		}
		if slices.ContainsFunc(Places[:i], func(p Place) bool { return p.Point == place.Point }) {
			t.Errorf("%s is there twice", place.Point)
		}
		if !strings.HasSuffix(place.Says, ".") {
			t.Errorf("%s says %q, which is no sentence", place.Point, place.Says)
		}
	}
	for _, places := range []map[Point][]string{found, want} {
		for _, list := range places {
			slices.Sort(list)
		}
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("the list (-) and the code (+) differ:\n%s", diff)
	}
}

// TestEveryWriteAndSendHasItsPlace looks for changes of stores and for what goes to the queue that are not named, and for files that are
// written by functions in which nothing can fail.
func TestEveryWriteAndSendHasItsPlace(t *testing.T) {
	all, _ := sources(t)
	seen := map[string]bool{}
	for _, f := range all {
		folder := f.where[:strings.LastIndexByte(f.where, '.')]
		for _, call := range calls(f.body, "Journal.Write", "db.Write", "j.Write", "Queue.Send", "Queue.Acknowledge", "queue.Acknowledge",
			"Queue.Withdraw", "Queue.SetGeneration", "Accounts.Apply") {
			if _, wraps := passedOn[f.where]; wraps || len(call.Args) == 0 || !served(folder) {
				continue
			}
			if len(calls(call.Args[0], "failpoint.At")) == 0 {
				t.Errorf("%s: %s does not say which write or send it is", f.at, dotted(call.Fun))
			}
		}
		seen[f.where] = true
		writes := calls(f.body, "os.WriteFile", "os.Rename", "os.Link", "os.Remove", "os.OpenFile", "os.Create", "os.CreateTemp", "os.Truncate", "conn.Write")
		if len(writes) == 0 || !served(folder) || passedOn[f.where] != "" {
			continue
		}
		if !mentionsPackage(f.body) && len(calls(f.body, "step")) == 0 {
			t.Errorf("%s: %s writes, and has no place", f.at, f.where)
		}
	}
	for where := range passedOn {
		if !seen[where] {
			t.Errorf("there is no %s any more", where)
		}
	}
}

// served reports whether a folder is part of what daemons do, rather than of commands, tests and benchmarks.
func served(folder string) bool {
	if strings.HasPrefix(folder, "cmd/") {
		return folder == "cmd/writ/internal/daemon" || folder == "cmd/writ/internal/config"
	}
	for _, room := range []string{"runner", "supervisor", "coord", "ledger", "sal", "identity", "internal/sqldb"} {
		if folder == room || strings.HasPrefix(folder, room+"/") {
			return !strings.HasSuffix(folder, "test")
		}
	}
	return false
}

// passedOn are the functions that write or send for a caller who has named it, or whose writing is not one of ours, with the reason.
var passedOn = map[string]string{
	"supervisor/journal.Write":             "the caller named it",
	"supervisor.control":                   "the caller named it",
	"runner.send":                          "the caller named it",
	"internal/sqldb.reserve":               "an empty file",
	"sal/host.read":                        "it only looks whether it may",
	"sal/simulated.repair":                 "it cuts off what a crash left, at every start",
	"cmd/writ/internal/daemon.serve":       "the log of redis-server",
	"cmd/writ/internal/daemon.writeShared": "the certificate of Redis, which every start writes anew",
	"sal/mycelium.openLog":                 "the log of mycelium",
	"sal/mycelium.trimLog":                 "the log of mycelium",
	"sal.cloneTo":                          "the caller named it",
	"sal/btrfs.RemoveSnapshot":             "a directory that has become empty",
	"sal/btrfs.removeSnapshots":            "a directory that has become empty",
	"sal/volume.forgetPart":                "it takes away what was never finished; if it stays it is in nobody's way",
	"sal/volume.forgetArrival":             "it takes away what arrived and is whole or wanted no more; if it stays it is in nobody's way",
	"sal/containerd.open":                  "the log of a container",
	"sal.PutAside":                         "a log; the caller named it, or it is that of a container",
	"sal.removeAll":                        "a log; the caller named it, or it is that of a container",
	"sal/needs.Openable":                   "it only looks whether it may",
	"sal/netdev.lookForwarding":            "it only looks whether it may",
	"sal/herodb.writeProgram":              "the caller named it",
	"sal/cloudhypervisor.growTo":           "the caller named it",
	"sal/cloudhypervisor.listenAt":         "the caller named it",
	"sal/cloudhypervisor.makeRoom":         "the caller named it",
	"sal/cloudhypervisor.writeImage":       "the caller named it",
	"sal/cloudhypervisor.touch":            "the caller named it",
	"sal/cloudhypervisor.copyTo":           "the caller named it",
	"sal.openFile":                         "it opens for reading",
	"sal.openDir":                          "it opens for reading",
}

func mentionsPackage(body ast.Node) (found bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		found = found || ok && id.Name == "failpoint"
		return true
	})
	return found
}

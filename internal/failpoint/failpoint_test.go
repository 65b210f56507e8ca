package failpoint

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"

	"writ/internal/test/gosource"
)

// sources parses the program and returns its functions, and the points by the names of their constants.
func sources(t *testing.T) (all []gosource.Function, names map[string]Point) {
	t.Helper()
	root, err := gosource.Module()
	if err != nil {
		t.Fatal(err)
	}
	files, err := gosource.Load(root)
	if err != nil {
		t.Fatal(err)
	}
	names = map[string]Point{}
	for _, f := range files {
		if f.Syntax.Name.Name == "failpoint" {
			constants(f.Syntax, names)
		} else {
			all = append(all, f.Functions()...)
		}
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
			if value, ok := spec.Values[0].(*ast.BasicLit); ok && value.Kind == token.STRING {
				names[spec.Names[0].Name] = Point(strings.Trim(value.Value, `"`))
			}
		}
		return true
	})
}

// calls returns the calls in a function whose name ends with one of names: "Journal.Write" matches s.Journal.Write.
func calls(body ast.Node, names ...string) (all []*ast.CallExpr) {
	ast.Inspect(body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			called := "." + gosource.Dotted(call.Fun)
			if slices.ContainsFunc(names, func(name string) bool { return strings.HasSuffix(called, "."+name) }) {
				all = append(all, call)
			}
		}
		return true
	})
	return all
}

// TestEveryPlaceIsInTheCode compares the list with the code: every point with a constant is named in one function, or
// in the number of functions that its place lists.
func TestEveryPlaceIsInTheCode(t *testing.T) {
	all, names := sources(t)
	found := map[Point][]string{}
	for _, f := range all {
		ast.Inspect(f.Decl.Body, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && gosource.Dotted(s.X) == "failpoint" && names[s.Sel.Name] != "" {
				if p := names[s.Sel.Name]; !slices.Contains(found[p], f.String()) {
					found[p] = append(found[p], f.String())
				}
			}
			return true
		})
	}
	for name, p := range names {
		place, listed := Find(p)
		if !listed {
			t.Errorf("add %s to Places", name)
		} else if want := max(place.Functions, 1); len(found[p]) != want {
			t.Errorf("%s is named in %d functions (%s), want %d: name the write, or correct Functions in Places",
				p, len(found[p]), strings.Join(found[p], ", "), want)
		}
	}
	for i, place := range Places {
		if slices.ContainsFunc(Places[:i], func(p Place) bool { return p.Point == place.Point }) {
			t.Errorf("%s is in Places twice", place.Point)
		}
		if !strings.HasSuffix(place.Event, ".") {
			t.Errorf("%s has the event %q, which is not a sentence", place.Point, place.Event)
		}
	}
}

// named lists the calls that change a store or send to the queue for a caller. Their context names the write or send.
var named = []string{
	"Journal.Write", "journal.Write", "db.Write", "j.Write", "Queue.Send", "queue.Send", "Queue.Acknowledge", "queue.Acknowledge", "Queue.Withdraw", "queue.SetGeneration", "Queue.Apply",
}

// written lists the calls that change a file or connection. Their function names the place itself.
var written = []string{"os.WriteFile", "os.Rename", "os.Link", "os.Remove", "os.OpenFile", "os.Create", "os.CreateTemp", "os.Truncate", "conn.Write"}

// exempt is the directive of a function that writes or sends for a caller that named it, or whose write does not
// matter. A reason follows.
const exempt = "failpoint:none"

// TestEveryWriteAndSendHasItsPlace reports changes of stores, messages to the queue and files without a place. A
// function without a place needs the directive //failpoint:none with a reason.
//
// Promise: Limits and shares: The list of these write and send points is complete, and the released program contains
// no code for them.
// How: A test compares the code with the list and searches the binary.
// Also: TestEveryPlaceIsInTheCode, TestTheProgramHasNoPlacesUnlessItIsBuiltForTests.
func TestEveryWriteAndSendHasItsPlace(t *testing.T) {
	all, _ := sources(t)
	matched, searched := map[string]bool{}, map[string]bool{}
	for _, f := range all {
		reason, without := f.Directive(exempt)
		if without && reason == "" {
			t.Errorf("%s: write a reason behind //%s", f.File.At(f.Decl), exempt)
		}
		room := roomOf(f.File.Folder)
		searched[room] = true
		if room == "" {
			if without {
				t.Errorf("%s: remove //%s: no daemon is searched in %s", f.File.At(f.Decl), exempt, f.File.Folder)
			}
			continue
		}
		wrong := unnamed(f, matched)
		if writes := calls(f.Decl.Body, written...); len(writes) > 0 && !mentionsPackage(f.Decl.Body) && len(calls(f.Decl.Body, "step", "Step")) == 0 {
			wrong = append(wrong, f.String()+" writes, and has no place")
		}
		switch {
		case without && len(wrong) == 0:
			t.Errorf("%s: remove //%s: %s has no write without a place", f.File.At(f.Decl), exempt, f)
		case !without:
			for _, text := range wrong {
				t.Errorf("%s: %s. Name it (see CONTRIBUTING), or add //%s with a reason to the comment of the function", f.File.At(f.Decl), text, exempt)
			}
		}
	}
	for _, name := range named {
		if !matched[name] {
			t.Errorf("no daemon calls %s: correct the list named", name)
		}
	}
	for _, room := range rooms {
		if !searched[room] {
			t.Errorf("%s has no functions: correct the list rooms", room)
		}
	}
}

// unnamed returns a text for each change of a store or message whose context does not name it. It records the names
// that matched.
func unnamed(f gosource.Function, matched map[string]bool) (wrong []string) {
	for _, name := range named {
		for _, call := range calls(f.Decl.Body, name) {
			matched[name] = true
			if len(call.Args) > 0 && len(calls(call.Args[0], "failpoint.At")) == 0 {
				wrong = append(wrong, gosource.Dotted(call.Fun)+" does not name its write or send")
			}
		}
	}
	return append(wrong, unnamedChanges(f)...)
}

// unnamedChanges returns the calls of Write with a context, for any store, in functions that name no point.
func unnamedChanges(f gosource.Function) (wrong []string) {
	if mentionsPackage(f.Decl.Body) {
		return nil
	}
	for _, call := range calls(f.Decl.Body, "Write") {
		if len(call.Args) > 1 && len(calls(call, named...)) == 0 {
			wrong = append(wrong, gosource.Dotted(call.Fun)+" does not name its write")
		}
	}
	return wrong
}

// rooms lists the folders of the daemons, each with all folders below it.
var rooms = []string{
	"runner", "supervisor", "coord", "ledger", "sal", "identity", "internal/sqldb", "cmd/writ/internal/daemon", "cmd/writ/internal/config",
}

// roomOf returns the room of a folder, or "" if it belongs to no daemon. Packages for tests are in no room.
func roomOf(folder string) string {
	i := slices.IndexFunc(rooms, func(room string) bool { return folder == room || strings.HasPrefix(folder, room+"/") })
	if i < 0 || strings.HasSuffix(folder, "test") {
		return ""
	}
	return rooms[i]
}

func mentionsPackage(body ast.Node) (found bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		found = found || ok && id.Name == "failpoint"
		return true
	})
	return found
}

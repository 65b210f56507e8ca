package journal

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Each new value in meta must carry a code, or be listed with a reason.
func TestEveryValueCarriesACodeOrDoesNoHarm(t *testing.T) {
	constants, named := make(map[string]string), make(map[string]bool)
	var names []ast.Expr
	note := func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ValueSpec:
			for i, v := range n.Values {
				if text, ok := v.(*ast.BasicLit); ok && text.Kind == token.STRING {
					constants[n.Names[i].Name], _ = strconv.Unquote(text.Value)
				}
			}
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.SelectorExpr); ok && slices.Contains([]string{"meta", "setMeta", "number"}, f.Sel.Name) {
				if of, ok := f.X.(*ast.Ident); ok && of.Name == "tx" {
					names = append(names, n.Args[0])
				}
			}
		}
		return true
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, note)
	}
	for _, name := range names {
		if sum, ok := name.(*ast.BinaryExpr); ok { // a prefix and the rest
			name = sum.X
		}
		switch id, ok := name.(*ast.Ident); {
		case !ok:
			t.Errorf("value without a constant name: %#v", name)
		case id.Name != "name": // the parameter of meta, setMeta and number, which reject unlisted names
			named[constants[id.Name]] = true
		}
	}
	for name := range named {
		if (codedValues[name] == "") == (freeValues[name] == "") {
			t.Errorf("the value %q is in none of the two tables, or in both", name)
		}
	}
	for _, table := range []map[string]string{codedValues, freeValues} {
		for name := range table {
			if !named[name] {
				t.Errorf("no value has the name %q", name)
			}
		}
	}
	j, err := Open(t.Context(), ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if err := j.Write(t.Context(), func(tx *Tx) error { return tx.setMeta("another", "x") }); err == nil {
		t.Error("an unlisted value was written")
	}
}

func TestForgedMetaValueIsRefused(t *testing.T) {
	for what, change := range map[string]string{
		"lowered":      `UPDATE meta SET value = '1' WHERE name = 'certificate floor'`,
		"made up":      `UPDATE meta SET value = '1', mac = NULL WHERE name = 'certificate floor'`,
		"of a mark":    `UPDATE meta SET value = (SELECT value FROM meta WHERE name = 'protected') WHERE name = 'certificate floor'`,
		"another name": `INSERT INTO meta (name, value, mac) SELECT 'doubt', value, mac FROM meta WHERE name = 'certificate floor'`,
	} {
		t.Run(what, func(t *testing.T) {
			bothEngines(t, func(t *testing.T, path string) {
				begun := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
				j, err := openProtected(t, path, Protection{Key: theKey})
				if err != nil {
					t.Fatal(err)
				}
				mustWrite(t, j, func(tx *Tx) error { return tx.SetCertificateFloor(begun) })
				if at, err := floorOf(j); err != nil || !at.Equal(begun) {
					t.Fatalf("the floor is %s, %v", at, err)
				}
				mustWrite(t, j, func(tx *Tx) error { return tx.exec(change) })
				_, read := floorOf(j)
				release(t, j)
				if _, err := openProtected(t, path, Protection{Key: theKey}); !isForged(read) && !isForged(err) {
					t.Errorf("the floor is read with %v, and an epoch begins with %v", read, err)
				}
			})
		})
	}
}

func floorOf(j *Journal) (at time.Time, err error) {
	err = j.Read(context.Background(), func(tx *Tx) error {
		at, err = tx.CertificateFloor()
		return err
	})
	return at, err
}

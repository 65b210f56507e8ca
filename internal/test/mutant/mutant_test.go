package mutant

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"writ/internal/test/gosource"
)

const program = `package store

const limit = 2

type Journal struct{ open bool }

// A comment that names epoch does not count.
func (j *Journal) write(keys []int, epoch int) (int, error) {
	if epoch := epoch + 1; epoch < limit {
		return 0, nil
	}
	if !j.open {
		return 1, nil
	}
	for _, k := range append(keys, 1) {
		j.note(k, epoch)
	}
	switch {
	case j.open:
		epoch = max(epoch, 3)
	}
	select {
	case <-make(chan int):
	}
	return epoch, nil
}

func (j *Journal) note(a, b int) {}

func write() {}
`

// parsed returns a program with the package store in a folder, and another package if its text is not empty.
func parsed(t *testing.T, folder, other string) *Program {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{folder: program, "other": other} {
		if text == "" {
			continue
		}
		dir := filepath.Join(root, name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "store.go"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files, err := gosource.Load(root)
	if err != nil {
		t.Fatal(err)
	}
	return &Program{files}
}

func TestEditReplacesOneNode(t *testing.T) {
	p := parsed(t, "a/store", "")
	for _, test := range []struct {
		edit Edit
		want string // a line of the changed program
	}{
		{Edit{In: "store.Journal.write", Node: If, Names: "limit", Becomes: Never}, "if epoch := epoch + 1; (epoch < limit) && false {"},
		{Edit{In: "store.Journal.write", Node: If, Nth: 2, Becomes: Negate}, "if !(!j.open) {"},
		{Edit{In: "store.Journal.write", Node: Compare, Becomes: "$2 > $1"}, "if epoch := epoch + 1; limit > epoch {"},
		{Edit{In: "store.Journal.write", Node: Range, Becomes: "$0[:0]"}, "for _, k := range append(keys, 1)[:0] {"},
		{Edit{In: "store.Journal.write", Node: Call, Names: "note", Becomes: "_, _ = $1, $2"}, "_, _ = k, epoch"},
		{Edit{In: "store.Journal.write", Node: Case, Becomes: Always}, "case (j.open) || true:"},
		{Edit{In: "store.Journal.write", Node: Assign, Names: "max", Becomes: "_ = $2"}, "_ = max(epoch, 3)"},
		{Edit{In: "store.Journal.write", Node: Receive, Becomes: "default"}, "default:"},
		{Edit{In: "store.Journal.write", Node: Return, Names: "epoch", Becomes: "_ = $1; return 0, $2"}, "_ = epoch; return 0, nil"},
		{Edit{In: "store.limit", Node: Value, Becomes: "7"}, "const limit = 7"},
		// The package had another name.
		{Edit{In: "journal.Journal.write", Node: Call, Names: "max", Becomes: "$1"}, "epoch = epoch"},
	} {
		m, err := p.Mutate(test.edit)
		if err != nil {
			t.Errorf("%s: %v", test.want, err)
			continue
		}
		overlay, err := m.Overlay(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(filepath.Dir(overlay), "0_store.go"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "\t"+test.want+"\n") && !strings.Contains(string(text), "\n"+test.want+"\n") {
			t.Errorf("%+v: %q is missing in\n%s", test.edit, test.want, text)
		}
		if _, err := parser.ParseFile(token.NewFileSet(), "", text, 0); err != nil {
			t.Errorf("%+v: %v", test.edit, err)
		}
	}
}

func TestUnclearEditIsRejected(t *testing.T) {
	p := parsed(t, "store", "package other\n\ntype Journal struct{}\n\nfunc (Journal) note() {}\n")
	for name, test := range map[string]struct {
		edit Edit
		want []string // expected parts of the error: the field to correct, and the candidates
	}{
		"ambiguous node":     {Edit{In: "store.Journal.write", Node: If, Becomes: Never}, []string{"Nth", "store/store.go:9", "store/store.go:12"}},
		"missing node":       {Edit{In: "store.Journal.write", Node: If, Names: "closed", Becomes: Never}, []string{"Names", "store/store.go:9"}},
		"missing number":     {Edit{In: "store.Journal.write", Node: If, Nth: 3, Becomes: Never}, []string{"Nth", "store/store.go:12"}},
		"renamed function":   {Edit{In: "store.Ledger.write", Node: If, Becomes: Never}, []string{"In", "store.Journal.write", "store.write"}},
		"ambiguous function": {Edit{In: "ledger.Journal.note", Node: If, Becomes: Never}, []string{"In", "store.Journal.note", "other.Journal.note"}},
		"missing constant":   {Edit{In: "store.most", Node: Value, Becomes: "1"}, []string{"In"}},
		"missing part":       {Edit{In: "store.Journal.write", Node: Compare, Becomes: "$3"}, []string{"Becomes", "$3"}},
	} {
		_, err := p.Mutate(test.edit)
		for _, part := range test.want {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v does not name %s", name, err, part)
			}
		}
	}
}

func TestOverlappingMutantsAreSeen(t *testing.T) {
	p := parsed(t, "store", "")
	one := func(e Edit) *Mutant {
		t.Helper()
		m, err := p.Mutate(e)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	whole := one(Edit{In: "store.Journal.write", Node: Assign, Names: "max", Becomes: ""})
	inside := one(Edit{In: "store.Journal.write", Node: Call, Names: "max", Becomes: "$2"})
	apart := one(Edit{In: "store.limit", Node: Value, Becomes: "9"})
	if !whole.Overlaps(inside) || whole.Overlaps(apart) {
		t.Errorf("the assignment overlaps with its call: %t, with a constant: %t", whole.Overlaps(inside), whole.Overlaps(apart))
	}
	if got := whole.Join(apart).Packages(); len(got) != 1 || got[0] != "./store" {
		t.Errorf("packages are %q", got)
	}
}

package arch_test

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"writ/internal/arch"
)

func TestImportsFollowTheArchitecture(t *testing.T) {
	broken, err := arch.Check(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	for _, sentence := range broken {
		t.Error(sentence)
	}
}

const plan = `# A system
## Packages
| folder | knows | must not know | may import |
| --- | --- | --- | --- |
| ` + "`writ`" + ` | words | all else | the standard library |
| ` + "`store`, `store/suite`" + ` | contracts | | ` + "`writ`" + ` |
| ` + "`store/sql`" + ` | SQL | | ` + "`writ`, `store`" + ` |
| ` + "`tool/*`" + ` | tools | | ` + "`writ`" + ` |
| ` + "`cmd/writ`" + ` | all | | all |
| ` + "`internal`" + ` | helpers | | ` + "`writ`" + ` |

## Outside
| import | only in | because |
| --- | --- | --- |
| ` + "`database/sql`, `example.com/driver`" + ` | ` + "`store/sql`" + ` | SQL is the store's |
| ` + "`example.com/queue`" + ` | ` + "`store`, `tool/hammer`" + ` (one file each) | it may be replaced |
| ` + "`writ/internal/db`" + ` | ` + "`store/sql`" + ` | the same |
`

// source returns a small module that follows its architecture.
func source() map[string]string {
	return map[string]string{
		"docs/architecture.md":     plan,
		"go.mod":                   "module writ\n",
		"words.go":                 "// Package writ is words.\npackage writ\n",
		"words_test.go":            "package writ\nimport _ \"example.com/driver\"\n",
		"store/store.go":           "// Package store is a contract.\npackage store\nimport (\n\t\"writ\"\n\t_ \"writ/internal\"\n)\n",
		"store/queue.go":           "package store\nimport \"example.com/queue\"\n",
		"store/suite/suite.go":     "// Package suite tests.\npackage suite\nimport (\n\t\"testing\"\n\t\"writ/store\"\n)\n",
		"store/sql/sql.go":         "// Package sql is SQL.\npackage sql\nimport (\n\t\"database/sql\"\n\t\"writ/internal/db\"\n\t\"writ/store\"\n)\n",
		"store/testdata/x.go":      "no Go at all",
		"tool/hammer/hammer.go":    "// Package hammer hits.\npackage hammer\nimport \"writ\"\n",
		"tool/saw/saw.go":          "// Package saw cuts.\npackage saw\nimport \"writ/tool/saw/blade\"\n",
		"tool/saw/blade/blade.go":  "// Package blade is sharp.\npackage blade\n",
		"cmd/writ/main.go":         "// Writ is a command.\npackage main\nimport (\n\t\"writ/store/sql\"\n\t\"writ/tool/saw\"\n)\n",
		"internal/help.go":         "// Package internal helps.\npackage internal\n",
		"internal/test/stub/s.go":  "// Package stub is for tests.\npackage stub\n",
		"internal/db/db.go":        "// Package db is a database.\npackage db\nimport \"writ\"\n",
		"tool/saw/saw_test.go":     "package saw\nfunc TestSharp(t *testing.T) {}\nfunc TestBentOrStraight(t *testing.T) {}\n",
		"store/keeps_test.go":      "package store\nfunc TestKeepsAll(t *testing.T) {}\n",
		"tools/go.mod":             "module tools\n",
		"tools/tool.go":            "package tools\nimport \"writ/nothing\"\n",
		"only/tests/tests_test.go": "package tests\n",
	}
}

func TestViolationsOfTheArchitectureAreNamed(t *testing.T) {
	for _, tt := range []struct {
		name string
		file string
		text string
		want string // the only violation, "" for none
	}{
		{"in order", "only/tests/tests_test.go", "", ""},
		{"upward", "store/up.go", "package store\nimport \"writ/cmd/writ\"\n", "store/up.go:2: store imports cmd/writ, which the row of store does not allow"},
		{"a driver is not its siblings' package", "tool/hammer/sql.go", "package hammer\n\nimport \"writ/store/sql\"\n", "tool/hammer/sql.go:3: tool/hammer imports store/sql, which the row of tool/* does not allow"},
		{"sideways", "tool/hammer/side.go", "package hammer\nimport \"writ/tool/saw\"\n", "tool/hammer/side.go:2: tool/hammer imports tool/saw, which the row of tool/* does not allow"},
		{"on another system only", "store/up_windows.go", "//go:build windows\n\npackage store\nimport \"writ/cmd/writ\"\n", "store/up_windows.go:4: store imports cmd/writ, which the row of store does not allow"},
		{"the root package imports downwards", "down.go", "package writ\nimport \"writ/internal\"\n", "down.go:2: the root package imports internal, which the row of the root package does not allow"},
		{"the root package imports a library", "out.go", "package writ\nimport \"example.com/x\"\n", "out.go:2: the root package imports example.com/x; it may import the standard library only"},
		{"no row", "cellar/cellar.go", "// Package cellar is dark.\npackage cellar\n", "cellar has no row in the table Packages of docs/architecture.md"},
		{"SQL elsewhere", "store/driver.go", "package store\nimport \"example.com/driver/v2\"\n", "store/driver.go:2: store imports example.com/driver/v2, which is for store/sql only"},
		{"a helper for one", "store/db.go", "package store\nimport \"writ/internal/db\"\n", "store/db.go:2: store imports writ/internal/db, which is for store/sql only"},
		{"two adapters", "store/queue2.go", "package store\nimport \"example.com/queue\"\n", "example.com/queue is imported by store/queue.go and store/queue2.go; it belongs into one file"},
		{"an adapter in each place", "tool/hammer/queue.go", "package hammer\nimport \"example.com/queue\"\n", ""},
		{"a suite in the product", "cmd/writ/suite.go", "package main\nimport \"writ/store/suite\"\n", "cmd/writ/suite.go:2: cmd/writ imports store/suite, which is made for tests"},
		{"test support in the product", "cmd/writ/stub.go", "package main\nimport \"writ/internal/test/stub\"\n", "cmd/writ/stub.go:2: cmd/writ imports internal/test/stub, which is made for tests"},
		{"a long file", "store/long.go", "package store\n" + strings.Repeat("\n", 800), "store/long.go has 801 lines, 800 are allowed"},
		{"a long test", "store/long_test.go", "package store\n" + strings.Repeat("\n", 1400), ""},
		{"a long generated file", "store/long.gen.go", "package store\n" + strings.Repeat("\n", 9000), ""},
		{"a link that leads", "docs/a.md", "[plan](architecture.md#packages), [code](../store/store.go), [folder](../store), [web](https://example.com/x.md), [here](#a)\n", ""},
		{"a link that does not", "docs/a.md", "[plan](achitecture.md)\n", "docs/a.md has a link to achitecture.md, which is not there"},
		{"a link out of the repository", "docs/a.md", "[etc](../../etc/passwd)\n", "docs/a.md has a link to ../../etc/passwd, which is not there"},
		{"a proof", "store/store_test.go", "package store\nfunc TestKeeps(t *testing.T) {}\n", ""},
		{"a link to a test", "docs/a.md", "[TestSharp](../tool/saw/saw_test.go)\n", ""},
		{"a link to a test that is not there", "docs/a.md", "[TestKeeps](../tool/saw/saw_test.go)\n", "docs/a.md names the test TestKeeps of tool/saw, which is not there"},
		{"a promise without its test", "docs/a.md", "It keeps: `go test ./store -run TestKeeps`\n", "docs/a.md names the test TestKeeps of store, which is not there"},
		{"promises with their tests", "docs/a.md", "| `go test ./store ./tool/... -run 'TestBent\\|TestSharp/as a razor'` | `go test ./tool/saw -run TestSharp/blade` |\n", ""},
		{"one of several tests is not there", "docs/a.md", "| `go test ./store -run 'TestSharp\\|TestKeeps'` |\n", "docs/a.md names the test TestSharp of store, which is not there"},
		{"the part of a test that is not there", "docs/a.md", "`go test ./tool/saw -run TestBlunt/blade`\n", "docs/a.md names the test TestBlunt of tool/saw, which is not there"},
		{"a promise with flags", "docs/a.md", "`WRIT_TEST_LONG=1 go test -tags slow ./store -v -run 'TestKeeps$' -seed 1`\n", "docs/a.md names the test TestKeeps$ of store, which is not there"},
		{"a promise of the root package", "docs/a.md", "`go test . -run TestKeeps`\n", "docs/a.md names the test TestKeeps of the root package, which is not there"},
		{"a benchmark", "docs/a.md", "`go test ./store -run '^$' -bench Keeps`\n", ""},
		{"a test of one folder of several", "docs/a.md", "`go test ./store/... ./coord -run 'TestSharp'`\n", "docs/a.md names the test TestSharp of store/... coord, which is not there"},
		{"a folder that a task made", "bin/pictures/a.go", "package pictures\n", ""},
		{"a package without a comment", "tool/awl/awl.go", "package awl\n", "tool/awl has no package comment"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := source()
			delete(files, "only/tests/tests_test.go")
			files[tt.file] = tt.text
			if tt.text == "" {
				delete(files, tt.file)
			}
			broken, err := arch.Check(tree(files))
			if err != nil {
				t.Fatal(err)
			}
			broken = slices.DeleteFunc(broken, func(s string) bool { return s == "cellar is a folder at the top without a row" })
			if got := strings.Join(broken, "\n"); got != tt.want {
				t.Errorf("got:  %s\nwant: %s", got, tt.want)
			}
		})
	}
}

func TestTopLevelFolderNeedsARow(t *testing.T) {
	broken, err := arch.Check(tree(source()))
	if want := []string{"only is a folder at the top without a row"}; err != nil || !slices.Equal(broken, want) {
		t.Errorf("broken = %q, %v, want %q", broken, err, want)
	}
}

func TestRowWithoutPackageIsStale(t *testing.T) {
	files := source()
	maps.DeleteFunc(files, func(name, _ string) bool { return strings.HasPrefix(name, "tool/") || strings.HasPrefix(name, "only/") })
	files["cmd/writ/main.go"] = "// Writ is a command.\npackage main\n"
	broken, err := arch.Check(tree(files))
	if want := []string{"the row of tool/* in the table Packages has no package"}; err != nil || !slices.Equal(broken, want) {
		t.Errorf("broken = %q, %v, want %q", broken, err, want)
	}
}

func TestUnreadablePlanIsAnError(t *testing.T) {
	for name, text := range map[string]string{
		"no tables":   "# A source\n",
		"no cells":    strings.Replace(plan, "| words | all else |", "| words |", 1),
		"unknown row": strings.Replace(plan, "`writ`, `store` |", "`writ`, `stable` |", 1),
	} {
		t.Run(name, func(t *testing.T) {
			files := source()
			files["docs/architecture.md"] = text
			if broken, err := arch.Check(tree(files)); err == nil {
				t.Errorf("no error; broken = %q", broken)
			}
		})
	}
}

func tree(files map[string]string) fstest.MapFS {
	t := fstest.MapFS{}
	for name, text := range files {
		t[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return t
}

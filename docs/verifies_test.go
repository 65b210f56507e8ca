package docs_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-chi/chi/v5"

	"writ/identity"
	"writ/sal/catalog"
	"writ/supervisor/nodes"
)

// TestEverythingThatAuthorisesHasARowThatSaysWhoVerifiesIt compares verifies.md with the code: what people sign, what operations can do to data, what
// links and the node API are asked, the envelopes between processes, and the routes that write. That the tests of its last column are there,
// package arch looks.
func TestEverythingThatAuthorisesHasARowThatSaysWhoVerifiesIt(t *testing.T) {
	page, err := os.ReadFile("verifies.md")
	if err != nil {
		t.Fatal(err)
	}
	tables := tablesOf(t, string(page))
	for section, want := range map[string][]string{
		"What people sign":                  signedTexts(),
		"Operations of scripts":             kindsOfOperations(),
		"Requests on a link":                constantsOf(t, "../supervisor/link/link.go", "Verb"),
		"The node API":                      routesOf(t, nodes.Handler(nil, slog.New(slog.DiscardHandler))),
		"Signed envelopes":                  constantsOf(t, "../identity/envelope/envelope.go", "Kind"),
		"Writing routes of the coordinator": writingRoutes(t),
	} {
		if len(want) == 0 {
			t.Errorf("%s: the code has none", section)
		}
		got := tables[section]
		for _, row := range want {
			if !slices.Contains(got, row) {
				t.Errorf("%s: %s has no row", section, row)
			}
		}
		for _, row := range got {
			if !slices.Contains(want, row) {
				t.Errorf("%s: nothing is called %s", section, row)
			}
		}
	}
}

// tablesOf returns what the rows of each section are about. Each cell says something, the last one which test proves it.
func tablesOf(t *testing.T, page string) map[string][]string {
	tables := map[string][]string{}
	section, columns := "", 0
	for line := range strings.Lines(page) {
		if title, is := strings.CutPrefix(line, "## "); is {
			section, columns = strings.TrimSpace(title), 0
			continue
		}
		if !strings.HasPrefix(line, "|") {
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case columns == 0:
			columns = len(cells)
		case strings.HasPrefix(cells[0], "-"):
		default:
			name := strings.Trim(cells[0], "`")
			if len(cells) != columns || slices.Contains(cells, "") {
				t.Errorf("%s: the row of %s has an empty cell, or not %d of them", section, name, columns)
			}
			if !strings.HasPrefix(cells[len(cells)-1], "[Test") {
				t.Errorf("%s: the row of %s names no test", section, name)
			}
			tables[section] = append(tables[section], name)
		}
	}
	return tables
}

func signedTexts() (all []string) {
	for _, rule := range identity.Rules {
		switch rule.Namespace {
		case identity.ScriptNamespace:
			all = append(all, "script")
		case identity.RosterNamespace:
			all = append(all, "roster")
		default:
			all = append(all, rule.Kind+" "+rule.Decision)
		}
	}
	return all
}

func kindsOfOperations() (all []string) {
	for _, o := range catalog.Operations() {
		if !slices.Contains(all, string(o.Data)) {
			all = append(all, string(o.Data))
		}
	}
	return all
}

// constantsOf returns the values of a file's constants of a type.
func constantsOf(t *testing.T, file, of string) (all []string) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, is := n.(*ast.ValueSpec)
		if !is || fmt.Sprint(spec.Type) != of {
			return true
		}
		for _, value := range spec.Values {
			if literal, is := value.(*ast.BasicLit); is {
				text, err := strconv.Unquote(literal.Value)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, text)
			}
		}
		return true
	})
	return all
}

func routesOf(t *testing.T, handler http.Handler) (all []string) {
	routes, is := handler.(chi.Routes)
	if !is {
		t.Fatal("the node API has no list of routes")
	}
	err := chi.Walk(routes, func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		all = append(all, method+" "+route)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func writingRoutes(t *testing.T) (all []string) {
	spec, err := openapi3.NewLoader().LoadFromFile("../coord/api/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for path, item := range spec.Paths.Map() {
		for method := range item.Operations() {
			if method != http.MethodGet {
				all = append(all, method+" "+path)
			}
		}
	}
	return all
}

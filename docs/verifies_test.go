package docs_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-chi/chi/v5"
	"github.com/google/go-cmp/cmp"

	"writ/coord/api"
	"writ/identity"
	"writ/internal/arch"
	"writ/sal/catalog"
	"writ/supervisor/nodes"
)

const verifiesFile = "verifies.md"

// party are the columns of the tables of docs/verifies.md: what there is, who makes it, who verifies it, and what proves that.
var party = []string{"what", "signed by", "coordinator", "supervisor", "node", "client", "test"}

// authority is a sort of things that change or authorise something, as the code has them. Each is a table of docs/verifies.md.
type authority struct {
	heading string
	has     map[string][]string // by the word that begins the row, the others that stand beside it
}

// authorities lists everything that changes or authorises something.
func authorities(t *testing.T) []authority {
	return []authority{
		{"Texts that people sign", alone(signedTexts())},
		{"Operations", operationsByData()},
		{"Requests over a link", alone(constantsOf(t, "supervisor/link", "Verb"))},
		{"Requests of nodes", alone(nodeRoutes(t))},
		{"Envelopes", alone(constantsOf(t, "identity/envelope", "Kind"))},
		{"Requests that write to a coordinator", alone(writingRoutes(t))},
	}
}

func alone(words []string) map[string][]string {
	rows := map[string][]string{}
	for _, word := range words {
		rows[word] = nil
	}
	return rows
}

func signedTexts() (all []string) {
	for _, rule := range identity.Rules {
		all = append(all, nameOf(rule))
	}
	return all
}

// nameOf is a statement's subject and decision, and the namespace of any other text.
func nameOf(rule identity.Rule) string {
	if rule.Namespace == identity.StatementNamespace {
		return rule.Kind + " " + rule.Decision
	}
	return string(rule.Namespace)
}

// operationsByData groups the operations by what nodes demand for them: those that the supervisor answers by itself come to no node.
func operationsByData() map[string][]string {
	groups := map[string][]string{}
	for _, op := range catalog.Operations() {
		group := string(op.Data)
		if op.Effect == catalog.Find {
			group = "finds"
		}
		groups[group] = append(groups[group], op.Name())
	}
	return groups
}

// constantsOf returns the values of a package's constants of a type, which are strings.
func constantsOf(t *testing.T, folder, typeName string) (all []string) {
	t.Helper()
	files, err := fs.Glob(os.DirFS("../"+folder), "*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), "../"+folder+"/"+name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			group, ok := decl.(*ast.GenDecl)
			if !ok || group.Tok != token.CONST {
				continue
			}
			for _, spec := range group.Specs {
				all = append(all, valuesOf(t, spec.(*ast.ValueSpec), typeName)...)
			}
		}
	}
	return all
}

// valuesOf returns the values of constants if they are of the type.
func valuesOf(t *testing.T, spec *ast.ValueSpec, typeName string) (all []string) {
	t.Helper()
	declared, _ := spec.Type.(*ast.Ident)
	for _, value := range spec.Values {
		is := declared != nil && declared.Name == typeName
		if call, ok := value.(*ast.CallExpr); ok { // Kind("job")
			made, _ := call.Fun.(*ast.Ident)
			if is = made != nil && made.Name == typeName; is {
				value = call.Args[0]
			}
		}
		if !is {
			continue
		}
		literal, ok := value.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			t.Fatalf("the constant %s of the type %s is no plain string: this test cannot read it", spec.Names[0].Name, typeName)
		}
		text, err := strconv.Unquote(literal.Value)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, text)
	}
	return all
}

// nodeRoutes are those of the API that a supervisor has for nodes.
func nodeRoutes(t *testing.T) (all []string) {
	t.Helper()
	err := chi.Walk(nodes.Handler(nil, nil, slog.New(slog.DiscardHandler)).(chi.Routes),
		func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
			all = append(all, method+" "+route)
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// writingRoutes are those of a coordinator's API that do not only read. That the router has no others another test sees to.
func writingRoutes(t *testing.T) (all []string) {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(api.Spec)
	if err != nil {
		t.Fatal(err)
	}
	reading := []string{http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace}
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			if !slices.Contains(reading, method) {
				all = append(all, method+" "+path)
			}
		}
	}
	return all
}

// flaws returns a sentence for each way in which the tables of a document are not complete. That the tests they name are there, the test of
// package arch sees to, for this document as for all others.
func flaws(document string, all []authority) (flaws []string) {
	report := func(format string, args ...any) { flaws = append(flaws, fmt.Sprintf(format, args...)) }
	for _, a := range all {
		seen := map[string]bool{}
		for _, cells := range arch.Table(document, a.heading) {
			words := arch.Quoted(cells[0])
			if len(words) == 0 {
				report("%s: the row %q does not begin with what it is about", a.heading, cells[0])
				continue
			}
			members, known := a.has[words[0]]
			switch {
			case !known:
				report("%s: there is no %s", a.heading, words[0])
			case seen[words[0]]:
				report("%s: %s is there twice", a.heading, words[0])
			case members != nil && !slices.Equal(slices.Sorted(slices.Values(words[1:])), slices.Sorted(slices.Values(members))):
				report("%s: the row of %s has to name %s, and nothing else", a.heading, words[0], strings.Join(members, ", "))
			}
			seen[words[0]] = true
			if len(cells) != len(party) {
				report("%s: the row of %s has %d cells, not %d", a.heading, words[0], len(cells), len(party))
				continue
			}
			for i, cell := range cells {
				if !strings.ContainsFunc(cell, unicode.IsLetter) {
					report("%s: the row of %s says nothing of %q", a.heading, words[0], party[i])
				}
			}
			if last := cells[len(party)-1]; strings.ContainsFunc(last, unicode.IsLetter) && len(arch.Proofs(last)) == 0 {
				report("%s: the row of %s names no test as `go test ./FOLDER -run TestNAME`", a.heading, words[0])
			}
		}
		for _, word := range slices.Sorted(maps.Keys(a.has)) {
			if !seen[word] {
				report("%s: %s has no row", a.heading, word)
			}
		}
	}
	return flaws
}

// Whoever adds something that changes or authorises something says who verifies it.
func TestEverythingThatAuthorisesSaysWhoVerifiesIt(t *testing.T) {
	document, err := os.ReadFile(verifiesFile)
	if err != nil {
		t.Fatal(err)
	}
	all := authorities(t)
	for _, a := range all {
		if len(a.has) == 0 {
			t.Errorf("%s: the code has none, or this test does not find them any more", a.heading)
		}
	}
	for _, flaw := range flaws(string(document), all) {
		t.Errorf("%s: %s", verifiesFile, flaw)
	}
	rows := arch.Table(string(document), all[0].heading)
	for _, rule := range identity.Rules {
		i := slices.IndexFunc(rows, func(cells []string) bool { return len(cells) > 1 && strings.Contains(cells[0], "`"+nameOf(rule)+"`") })
		if i >= 0 && !slices.Contains(arch.Quoted(rows[i][1]), string(rule.Action)) {
			t.Errorf("%s: who signs %s must be allowed %q, and its row says: %s", verifiesFile, nameOf(rule), rule.Action, rows[i][1])
		}
	}
}

func TestAFlawOfATableIsFound(t *testing.T) {
	all := []authority{{"Verbs", map[string][]string{"stop": nil, "go": {"walk", "run"}}}}
	stop := "| `stop`, at once | a person | text | text, right | — never sees it | signature | `go test ./a -run TestA` |\n"
	walk := "| `go`: `run`, `walk` | a person | nothing | text | sign | signature | `go test ./a -run 'TestA\\|TestB'` |\n"
	for name, tt := range map[string]struct {
		rows string
		want []string
	}{
		"complete":        {stop + walk, nil},
		"a missing row":   {stop, []string{"Verbs: go has no row"}},
		"an unknown row":  {stop + walk + strings.ReplaceAll(stop, "stop", "jump"), []string{"Verbs: there is no jump"}},
		"a row twice":     {stop + stop + walk, []string{"Verbs: stop is there twice"}},
		"a nameless row":  {stop + walk + strings.Replace(stop, "`stop`", "stop", 1), []string{`Verbs: the row " stop, at once " does not begin with what it is about`}},
		"a member less":   {stop + strings.Replace(walk, "`walk`", "walk", 1), []string{"Verbs: the row of go has to name walk, run, and nothing else"}},
		"an empty cell":   {walk + strings.Replace(stop, " text ", "  ", 1), []string{`Verbs: the row of stop says nothing of "coordinator"`}},
		"a bare dash":     {walk + strings.Replace(stop, "— never sees it", "—", 1), []string{`Verbs: the row of stop says nothing of "node"`}},
		"a cell too few":  {walk + strings.Replace(stop, "| text |", "|", 1), []string{"Verbs: the row of stop has 6 cells, not 7"}},
		"a test by name":  {walk + strings.Replace(stop, "`go test ./a -run TestA`", "TestA", 1), []string{"Verbs: the row of stop names no test as `go test ./FOLDER -run TestNAME`"}},
		"without a table": {"", []string{"Verbs: go has no row", "Verbs: stop has no row"}},
	} {
		t.Run(name, func(t *testing.T) {
			document := "# Who\n\n## Verbs\n\n| what | | | | | | |\n| --- | --- | --- | --- | --- | --- | --- |\n" + tt.rows
			if diff := cmp.Diff(tt.want, flaws(document, all)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

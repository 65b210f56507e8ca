package docs_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-chi/chi/v5"
	"github.com/google/go-cmp/cmp"

	"writ/coord"
	"writ/coord/access"
	"writ/coord/api"
	"writ/efi/bootserver"
	"writ/identity"
	"writ/identity/sshsig"
	"writ/internal/arch"
	"writ/runner/transfer"
	"writ/sal/catalog"
	"writ/supervisor/nodes"
)

const verifiesFile = "verifies.md"

//go:generate go test . -run ^TestEveryAuthorisationNamesItsVerifiers$ -update

var update = flag.Bool("update", false, "write the cells that are made from the code")

// Columns of the tables in docs/verifies.md.
var (
	party     = []string{"what", "signed by", "coordinator", "supervisor", "node", "client", "test"}
	ofTexts   = []string{"what", "signed by", "decided by", "coordinator", "supervisor", "node", "client", "test"}
	ofActions = []string{"what", "signed by", "permit", "decided by", "coordinator", "supervisor", "node", "client", "test"}
)

// authority is a kind of object that changes or authorises something, as defined in the code. Each kind has a table in
// docs/verifies.md.
type authority struct {
	heading string
	columns []string
	has     map[string][]string // by the first cell of a row, the expected further names in that cell
	made    map[string][]string // by the same key, the cells after the first that are generated from the code
}

// authorities lists all kinds of objects that change or authorise something.
func authorities(t *testing.T) []authority {
	return []authority{
		{"Texts that people sign", ofTexts, alone(signedTexts()), cellsOfTexts()},
		{"Operations", ofActions, operationsByData(), cellsOfOperations(t)},
		{"Requests over a link", party, alone(constantsOf(t, "supervisor/link", "Verb")), nil},
		{"Requests of nodes", party, alone(nodeRoutes(t)), nil},
		{"Envelopes", party, alone(constantsOf(t, "identity/envelope", "Kind")), nil},
		{"Requests that write to a coordinator", party, alone(writingRoutes(t)), nil},
		{"Requests without a login", []string{"what", "cost", "limit", "test"}, alone(openRoutes(t)), nil},
	}
}

// cellsOfTexts returns, for each signed text, the required permission with its scope and roles, and the verifier that
// decides.
func cellsOfTexts() map[string][]string {
	made := map[string][]string{}
	for _, rule := range identity.Rules {
		decider := "the supervisor"
		if rule.Namespace == sshsig.RosterNamespace {
			decider = "each verifier for itself"
		}
		made[nameOf(rule)] = []string{signedBy(rule), decider}
	}
	return made
}

func signedBy(rule identity.Rule) string {
	if rule.Action == identity.ActionGovern { // independent of roles
		return "`" + string(rule.Action) + "`: root operators"
	}
	var roles []string
	for role, actions := range identity.RoleActions {
		if slices.Contains(actions, rule.Action) {
			roles = append(roles, string(role))
		}
	}
	slices.Sort(roles)
	where := "in all projects"
	if rule.Project {
		where = "in its project"
	}
	return fmt.Sprintf("`%s` %s: %s", rule.Action, where, strings.Join(roles, ", "))
}

// cellsOfOperations returns, for each group of operations, the required permission of the script's signer, the
// permission of a call, and the verifier that decides.
func cellsOfOperations(t *testing.T) map[string][]string {
	made := map[string][]string{}
	for _, op := range catalog.Operations() {
		signed, permit, decided := "`"+string(identity.ActionSubmit)+"`", "the header", "the supervisor"
		if op.Destructive {
			signed, permit = signed+" and `"+string(identity.ActionDestroy)+"`", "the header, which names the resource"
		}
		switch {
		case op.Effect == catalog.Find:
			permit += "; no job"
		case op.Signed():
			permit, decided = permit+"; a job with the payload", "the supervisor, and the node by the payload"
		default:
			permit += "; a job without the payload"
		}
		cells := []string{signed, permit, decided}
		if before := made[groupOf(op)]; before != nil && !slices.Equal(before, cells) {
			t.Errorf("%s needs %q, and others of %s need %q", op.Name(), cells, groupOf(op), before)
		}
		made[groupOf(op)] = cells
	}
	return made
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

// nameOf returns subject and decision of a statement, and the namespace of any other text.
func nameOf(rule identity.Rule) string {
	if rule.Namespace == sshsig.StatementNamespace {
		return rule.Kind + " " + rule.Decision
	}
	return string(rule.Namespace)
}

// operationsByData groups operations by the data that nodes require for them. Operations that the supervisor answers
// itself never reach a node.
func operationsByData() map[string][]string {
	groups := map[string][]string{}
	for _, op := range catalog.Operations() {
		groups[groupOf(op)] = append(groups[groupOf(op)], op.Name())
	}
	return groups
}

func groupOf(op *catalog.Operation) string {
	if op.Effect == catalog.Find {
		return "finds"
	}
	return string(op.Data)
}

// constantsOf returns the values of a package's string constants of a type.
func constantsOf(t *testing.T, folder, typeName string) (all []string) {
	t.Helper()
	for _, file := range sources(t, folder) {
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

// valuesOf returns the values of constants that have the type.
func valuesOf(t *testing.T, spec *ast.ValueSpec, typeName string) (all []string) {
	t.Helper()
	declared, _ := spec.Type.(*ast.Ident)
	for _, value := range spec.Values {
		is := declared != nil && declared.Name == typeName
		if call, ok := value.(*ast.CallExpr); ok { // for example Kind("job")
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
			t.Fatalf("the constant %s of type %s is not a plain string, so this test cannot read it", spec.Names[0].Name, typeName)
		}
		text, err := strconv.Unquote(literal.Value)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, text)
	}
	return all
}

// nodeRoutes lists the routes of a supervisor's node API.
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

// openRoutes lists the routes of all servers that require no login, prefixed with the server.
func openRoutes(t *testing.T) (all []string) {
	t.Helper()
	for server, routes := range map[string][]string{
		"coordinator": access.OpenRoutes(), "coordinator's metrics": coord.MetricsRoutes(), "node API": nodeRoutes(t),
		"boot server": bootserver.Routes(), "metrics": coord.MetricsRoutes(), // a test of their package compares them
		"transfers": transfer.Requests(),
	} {
		for _, route := range routes {
			all = append(all, server+" "+route)
		}
	}
	return all
}

// listeners maps each listener of a daemon to its server in the table of requests without a login.
var listeners = map[string]string{
	"bootd.Config.Machines": "boot server", "bootd.Config.Operators": "boot server",
	"coordinatord.Config.Listener": "coordinator", "coordinatord.Config.Metrics": "coordinator's metrics",
	"devcluster.Config.Listener":  "coordinator",
	"runnerd.Config.Metrics":      "metrics",
	"supervisord.Config.Listener": "node API", "supervisord.Config.Metrics": "metrics",
	"runner.Transfers.Listener": "transfers",
}

// TestEveryListenerHasRows finds the fields of type net.Listener of daemons. The server of each must have rows in the
// table.
func TestEveryListenerHasRows(t *testing.T) {
	routes := openRoutes(t)
	found := map[string]bool{}
	folders := []string{"cmd/writ/internal/daemon", "runner"}
	daemons, err := filepath.Glob("../cmd/writ/internal/daemon/*d*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range daemons {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			folders = append(folders, strings.TrimPrefix(filepath.ToSlash(dir), "../"))
		}
	}
	for _, folder := range folders {
		for _, field := range fieldsOfType(t, folder, "net.Listener") {
			field = path.Base(folder) + "." + field
			found[field] = true
			server := listeners[field]
			if server == "" || !slices.ContainsFunc(routes, func(route string) bool { return strings.HasPrefix(route, server+" ") }) {
				t.Errorf("%s has the listener %s, and %s has no row for its server %q", folder, field, verifiesFile, server)
			}
		}
	}
	for field := range listeners {
		if !found[field] {
			t.Errorf("no daemon has the listener %s", field)
		}
	}
}

// fieldsOfType lists the fields of a type in the structs of a package, as STRUCT.FIELD.
func fieldsOfType(t *testing.T, folder, typeName string) (all []string) {
	t.Helper()
	for _, file := range sources(t, folder) {
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			fields, ok := spec.Type.(*ast.StructType)
			if !ok {
				return true
			}
			for _, f := range fields.Fields.List {
				if s, ok := f.Type.(*ast.SelectorExpr); !ok || fmt.Sprint(s.X)+"."+s.Sel.Name != typeName {
					continue
				}
				for _, name := range f.Names {
					all = append(all, spec.Name.Name+"."+name.Name)
				}
			}
			return true
		})
	}
	return all
}

// sources parses the non-test files of a package.
func sources(t *testing.T, folder string) (all []*ast.File) {
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
		all = append(all, file)
	}
	return all
}

// writingRoutes lists the routes of a coordinator's API that change something. Another test checks that the router has
// no further routes.
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

// flaws returns a sentence for each gap in the tables of a document. The test of package arch checks that named tests
// exist, as for all documents.
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
			if len(cells) != len(a.columns) {
				report("%s: the row of %s has %d cells, not %d", a.heading, words[0], len(cells), len(a.columns))
				continue
			}
			for i, want := range a.made[words[0]] {
				if is := strings.TrimSpace(cells[1+i]); is != want {
					report("%s: in the row of %s %q is %q, and the code says %q", a.heading, words[0], a.columns[1+i], is, want)
				}
			}
			for i, cell := range cells {
				if !strings.ContainsFunc(cell, unicode.IsLetter) {
					report("%s: the row of %s says nothing of %q", a.heading, words[0], a.columns[i])
				}
			}
			if last := cells[len(cells)-1]; strings.ContainsFunc(last, unicode.IsLetter) && len(arch.Proofs(last)) == 0 {
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

// Every addition that changes or authorises something must document its verifiers.
//
// Promise: Signatures and rosters: A client without a login causes only bounded reads, memory and traffic at a
// server, however long the roster history is.
// How: A verifier needs the versions that change operators, the newest version, and 32 bytes for each other one; all
// callers share pages within 24 MiB.
// Also: TestStrangersShareOneRosterPage, TestAHelloIsAnsweredWithoutRosters
//
// Promise: Signatures and rosters: A table lists the verifier of every text and request that changes or authorises
// state.
// How: A test compares the rows of verifies.md with the code.
func TestEveryAuthorisationNamesItsVerifiers(t *testing.T) {
	document, err := os.ReadFile(verifiesFile)
	if err != nil {
		t.Fatal(err)
	}
	all := authorities(t)
	for _, a := range all {
		if len(a.has) == 0 {
			t.Errorf("%s: none found in the code", a.heading)
		}
	}
	if *update {
		document = []byte(withMadeCells(string(document), all))
		if err := os.WriteFile(verifiesFile, document, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, flaw := range flaws(string(document), all) {
		t.Errorf("%s: %s", verifiesFile, flaw)
	}
}

// withMadeCells returns a document with the cells that are generated from the code.
func withMadeCells(document string, all []authority) string {
	var b strings.Builder
	var in authority
	for line := range strings.Lines(document) {
		if heading, is := strings.CutPrefix(line, "## "); is {
			i := slices.IndexFunc(all, func(a authority) bool { return a.heading == strings.TrimSpace(heading) })
			if in = (authority{}); i >= 0 {
				in = all[i]
			}
		}
		cells := strings.SplitN(line, "|", len(in.columns)+1)
		if words := arch.Quoted(line); strings.HasPrefix(line, "|") && len(words) > 0 && in.made[words[0]] != nil {
			for i, cell := range in.made[words[0]] {
				cells[2+i] = " " + cell + " "
			}
			line = strings.Join(cells, "|")
		}
		b.WriteString(line)
	}
	return b.String()
}

func TestAFlawOfATableIsFound(t *testing.T) {
	all := []authority{{"Verbs", party, map[string][]string{"stop": nil, "go": {"walk", "run"}}, map[string][]string{"stop": {"a person"}}}}
	stop := "| `stop`, at once | a person | text | text, right | — never sees it | signature | `go test ./a -run TestA` |\n"
	walk := "| `go`: `run`, `walk` | a person | nothing | text | sign | signature | `go test ./a -run 'TestA\\|TestB'` |\n"
	for name, tt := range map[string]struct {
		rows string
		want []string
	}{
		"complete":       {stop + walk, nil},
		"a missing row":  {stop, []string{"Verbs: go has no row"}},
		"an unknown row": {stop + walk + strings.ReplaceAll(stop, "stop", "jump"), []string{"Verbs: there is no jump"}},
		"a row twice":    {stop + stop + walk, []string{"Verbs: stop is there twice"}},
		"a nameless row": {stop + walk + strings.Replace(stop, "`stop`", "stop", 1), []string{`Verbs: the row " stop, at once " does not begin with what it is about`}},
		"a member less":  {stop + strings.Replace(walk, "`walk`", "walk", 1), []string{"Verbs: the row of go has to name walk, run, and nothing else"}},
		"an empty cell":  {walk + strings.Replace(stop, " text ", "  ", 1), []string{`Verbs: the row of stop says nothing of "coordinator"`}},
		"a bare dash":    {walk + strings.Replace(stop, "— never sees it", "—", 1), []string{`Verbs: the row of stop says nothing of "node"`}},
		"a cell too few": {walk + strings.Replace(stop, "| text |", "|", 1), []string{"Verbs: the row of stop has 6 cells, not 7"}},
		"a false cell": {walk + strings.Replace(stop, "a person", "nobody else", 1),
			[]string{`Verbs: in the row of stop "signed by" is "nobody else", and the code says "a person"`}},
		"a test by name":  {walk + strings.Replace(stop, "`go test ./a -run TestA`", "TestA", 1), []string{"Verbs: the row of stop names no test as `go test ./FOLDER -run TestNAME`"}},
		"without a table": {"", []string{"Verbs: go has no row", "Verbs: stop has no row"}},
	} {
		t.Run(name, func(t *testing.T) {
			document := "# Who\n\n## Verbs\n\n| what | | | | | | |\n| --- | --- | --- | --- | --- | --- | --- |\n" + tt.rows
			if diff := cmp.Diff(tt.want, flaws(document, all)); diff != "" {
				t.Error(diff)
			}
			if mended := flaws(withMadeCells(document, all), all); name == "a false cell" && len(mended) > 0 {
				t.Error(mended)
			}
		})
	}
}

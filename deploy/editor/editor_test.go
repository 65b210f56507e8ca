package editor_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/d5/tengo/v2/parser"
	"github.com/d5/tengo/v2/token"

	"writ/sal/catalog"
	"writ/scripts"
	"writ/scripts/check"
	"writ/scripts/library"
)

// painter tokenises a text like an editor: the earliest match wins, and among equal ones the first rule of the grammar.
type painter struct {
	rules    []rule
	compiled map[string]*regexp.Regexp
}

func (p *painter) expression(t *testing.T, text string) *regexp.Regexp {
	if p.compiled[text] == nil {
		re, err := regexp.Compile(text)
		if err != nil {
			t.Fatalf("an expression is not of the common subset: %v", err)
		}
		p.compiled[text] = re
	}
	return p.compiled[text]
}

// paint returns the scope of each byte, "" where no rule matches.
func (p *painter) paint(t *testing.T, text string) []string {
	scopes := make([]string, len(text))
	var open *rule // an open Begin/End rule, which may span lines
	offset := 0
	for line := range strings.SplitSeq(text, "\n") {
		for at := 0; at < len(line); {
			if open != nil {
				at = p.inside(t, open, &open, line, at, scopes[offset:])
				continue
			}
			best, where := (*rule)(nil), []int(nil)
			for i := range p.rules {
				r := &p.rules[i]
				found := p.expression(t, r.Match+r.Begin).FindStringSubmatchIndex(line[at:])
				if found == nil || where != nil && found[0] >= where[0] {
					continue
				}
				best, where = r, found
			}
			if best == nil {
				break
			}
			if best.Match == "" {
				open = best
			}
			fill(scopes[offset+at+where[0]:offset+at+where[1]], best.Name)
			for i := 1; i < len(where)/2; i++ {
				if where[2*i] >= 0 {
					fill(scopes[offset+at+where[2*i]:offset+at+where[2*i+1]], best.Captures[string(rune('0'+i))].Name)
				}
			}
			at += where[1] // the match includes the end of a word, so the rest can be matched separately
		}
		offset += len(line) + 1
	}
	return scopes
}

// inside paints up to the end of an open rule or of the line.
func (p *painter) inside(t *testing.T, r *rule, open **rule, line string, at int, scopes []string) int {
	for at < len(line) {
		for _, inner := range r.Patterns {
			if found := p.expression(t, inner.Match).FindStringIndex(line[at:]); found != nil && found[0] == 0 {
				fill(scopes[at:at+found[1]], r.Name)
				at += found[1]
			}
		}
		if found := p.expression(t, r.End).FindStringIndex(line[at:]); found != nil && found[0] == 0 {
			fill(scopes[at:at+found[1]], r.Name)
			*open = nil
			return at + found[1]
		}
		if at < len(line) {
			scopes[at] = r.Name
			at++
		}
	}
	return at
}

func fill(scopes []string, name string) {
	for i := range scopes {
		if name != "" {
			scopes[i] = name
		}
	}
}

// sources returns all scripts of the repository.
func sources(t *testing.T) map[string]string {
	all := map[string]string{}
	paths, err := filepath.Glob("../../scripts/examples/*.tengo")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all[path] = string(text)
	}
	for _, name := range library.Names() {
		m, _ := library.Find(name)
		all[name] = m.Text
	}
	all["a bit of everything"] = "/* over\nlines */ a := 0x1f + 1.5e3 // end\nb := `raw \"\nstring` + 'x' + \"a\\\"b\\n\"\nc := error(\"e\") ? undefined : immutable([true])\nimage.delete(\"old\", {})\n"
	return all
}

// The grammar agrees with the engine's scanner about comments, strings, numbers, keywords and operations.
func TestGrammarAgreesWithTheScanner(t *testing.T) {
	text, err := os.ReadFile("syntaxes/tengo.tmLanguage.json")
	if err != nil {
		t.Fatal(err)
	}
	var g grammar
	if err := json.Unmarshal(text, &g); err != nil {
		t.Fatal(err)
	}
	p := &painter{rules: g.Patterns, compiled: map[string]*regexp.Regexp{}}
	seen := map[string]bool{}
	for name, text := range sources(t) {
		scopes := p.paint(t, text)
		file := parser.NewFileSet().AddFile(name, -1, len(text))
		scanner := parser.NewScanner(file, []byte(text), func(at parser.SourceFilePos, msg string) { t.Errorf("%s: %s", at, msg) }, parser.ScanComments|parser.DontInsertSemis)
		var before [2]string
		for {
			tok, literal, pos := scanner.Scan()
			if tok == token.EOF {
				break
			}
			at := file.Offset(pos)
			want := wanted(tok, literal, before)
			seen[scopes[at]] = true
			if want != nil && !slices.Contains(want, scopes[at]) {
				t.Errorf("%s: %s %q is painted %q, want one of %q", file.Position(pos), tok, literal, scopes[at], want)
			}
			before = [2]string{before[1], cmpOr(literal, tok.String())}
		}
	}
	for _, scope := range []string{
		scopeComment, scopeBlock, scopeString, scopeRaw, scopeChar, scopeNumber, scopeConstant, scopeKeyword, scopeFunc, scopeBuiltin, scopeModule,
		scopeOperation, scopeDestructive, scopeMember, scopeField, scopeKey, scopeFunction, scopeOperator, scopeVariable,
	} {
		if !seen[scope] {
			t.Errorf("no text has the scope %s", scope)
		}
	}
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// wanted returns the allowed scopes of a token, nil if any is allowed.
func wanted(tok token.Token, literal string, before [2]string) []string {
	switch {
	case tok == token.Comment:
		return []string{scopeComment, scopeBlock}
	case tok == token.String:
		return []string{scopeString, scopeRaw}
	case tok == token.Char:
		return []string{scopeChar}
	case tok == token.Int || tok == token.Float:
		return []string{scopeNumber}
	case tok == token.True || tok == token.False || tok == token.Undefined:
		return []string{scopeConstant}
	case tok == token.Func:
		return []string{scopeFunc}
	case tok == token.Error || tok == token.Immutable:
		return []string{scopeBuiltin, scopeField}
	case tok.IsKeyword():
		return []string{scopeKeyword}
	case tok == token.Ident && before[1] == ".":
		if op, ok := catalog.Lookup(before[0] + "." + literal); ok {
			if op.Destructive {
				return []string{scopeDestructive}
			}
			return []string{scopeOperation}
		}
	case tok == token.Ident:
		return []string{scopeModule, scopeBuiltin, scopeFunction, scopeKey, scopeField, scopeVariable}
	}
	return nil
}

var placeholder = regexp.MustCompile(`\$\{\d+:([^}]*)\}|\$0`)

// An unmodified snippet passes the check. If it is an operation, its arguments are valid.
func TestSnippetsPassTheCheck(t *testing.T) {
	for name, s := range newSnippets() {
		text := placeholder.ReplaceAllString(strings.Join(s.Body, "\n"), "$1") + "\n"
		var imports string
		for _, module := range scripts.Modules() {
			if regexp.MustCompile(`\b`+module+`\.`).MatchString(text) && !strings.Contains(text, module+" := ") {
				imports += module + " := import(\"" + module + "\")\n"
			}
		}
		for _, variable := range []string{"handle", "list"} { // variables that the author supplies
			if strings.Contains(text, variable) {
				imports += map[string]string{"handle": "handle := import(\"volume\").get(\"a\")\n", "list": "list := [1]\n"}[variable]
			}
		}
		bundle, err := scripts.Resolve(scripts.Source{Name: "snippet.tengo", Text: []byte(imports + text)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, operation := catalog.Lookup(name)
		if r := check.Check(bundle); !r.OK() || operation && len(r.Diagnostics) > 0 {
			t.Errorf("%s\n%s", name, r)
		}
	}
}

// The folder is a complete extension: it contains all files that package.json names.
func TestExtensionIsComplete(t *testing.T) {
	var manifest struct {
		Contributes struct {
			Languages []struct{ ID, Configuration string }
			Grammars  []struct{ Language, ScopeName, Path string }
			Snippets  []struct{ Language, Path string }
		}
	}
	readJSON(t, "package.json", &manifest)
	c := manifest.Contributes
	if len(c.Languages) != 1 || len(c.Grammars) != 1 || len(c.Snippets) != 1 {
		t.Fatalf("it contributes %+v", c)
	}
	if id := c.Languages[0].ID; c.Grammars[0].Language != id || c.Snippets[0].Language != id || c.Grammars[0].ScopeName != newGrammar().ScopeName {
		t.Errorf("its parts are of different languages: %+v", c)
	}
	for _, path := range []string{c.Languages[0].Configuration, c.Grammars[0].Path, c.Snippets[0].Path} {
		var anything map[string]any
		readJSON(t, path, &anything)
	}
}

func readJSON(t *testing.T, path string, v any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, v); err != nil {
		t.Errorf("%s: %v", path, err)
	}
}

// The task in the README for Visual Studio Code parses the output of `writ check`.
func TestProblemMatcherReadsDiagnostics(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := check.Check(scripts.Bundle{Main: scripts.Source{Name: "web.tengo", Text: []byte("import(\"run\").log(b)\n")}}).String()
	found := regexp.MustCompile(`"regexp": ("(?:[^"\\]|\\.)*")`).FindAllSubmatch(readme, -1)
	if len(found) != 2 {
		t.Fatalf("the README has %d expressions", len(found))
	}
	for _, f := range found {
		var expression string
		if err := json.Unmarshal(f[1], &expression); err != nil {
			t.Fatal(err)
		}
		lines := 0
		for line := range strings.Lines(shown) {
			if regexp.MustCompile(expression).MatchString(strings.TrimSuffix(line, "\n")) {
				lines++
			}
		}
		if lines != 1 {
			t.Errorf("%s matches %d lines of one diagnostic:\n%s", expression, lines, shown)
		}
	}
}

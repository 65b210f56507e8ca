package scripts_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/d5/tengo/v2/parser"
	"github.com/d5/tengo/v2/token"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"writ"
	"writ/internal/test/testenv"
	"writ/scripts"
	"writ/scripts/format"
)

func reformat(text string) (string, error) {
	out, err := format.Format(scripts.Source{Name: "test.tengo", Text: []byte(text)})
	return string(out), err
}

// formatsWell fails if the formatting of a readable text is not idempotent, or changes its meaning or comments.
func formatsWell(t interface {
	Helper()
	Fatalf(string, ...any)
}, text string) {
	t.Helper()
	once, err := reformat(text)
	if err != nil {
		t.Fatalf("%v of\n%s", err, text)
	}
	if len(once) > scripts.MaxSource {
		return // indentation made it too big to be read again
	}
	twice, err := reformat(once)
	if err != nil || once != twice {
		t.Fatalf("%v: formatting again changes (-once +twice):\n%s\nof\n%s", err, cmp.Diff(once, twice), text)
	}
	text = withoutCommas(text) // formatting removes them
	if diff := cmp.Diff(meaning(text), meaning(once)); diff != "" {
		t.Fatalf("the meaning changes (-before +after):\n%s\nof\n%s\nto\n%s", diff, text, once)
	}
	wantTokens, wantComments := scan(text)
	tokens, comments := scan(once)
	if diff := cmp.Diff(wantTokens, tokens); diff != "" {
		t.Fatalf("the tokens change (-before +after):\n%s\nof\n%s\nto\n%s", diff, text, once)
	}
	if diff := cmp.Diff(wantComments, comments); diff != "" {
		t.Fatalf("the comments change (-before +after):\n%s\nof\n%s\nto\n%s", diff, text, once)
	}
	for i, line := range strings.Split(once, "\n") {
		// Texts and comments of several lines stay unchanged.
		if strings.TrimRight(line, " \t") != line && !strings.ContainsAny(once, "`*") {
			t.Fatalf("line %d ends with white space:\n%s", i+1, once)
		}
	}
}

// scan returns the tokens without semicolons, and the comments.
func scan(text string) (tokens, comments []string) {
	s := parser.NewScanner(parser.NewFileSet().AddFile("test.tengo", -1, len(text)), []byte(text), nil, parser.ScanComments)
	for {
		tok, literal, _ := s.Scan()
		switch tok {
		case token.EOF:
			return tokens, comments
		case token.Semicolon:
		case token.Comment:
			if strings.HasPrefix(literal, "//") {
				literal = strings.TrimRight(literal, " \t\r")
			}
			comments = append(comments, literal)
		default:
			tokens = append(tokens, tok.String()+" "+literal)
		}
	}
}

// meaning returns the syntax tree of a text, without empty statements.
func meaning(text string) string {
	tree, err := parser.NewParser(parser.NewFileSet().AddFile("test.tengo", -1, len(text)), []byte(text), nil).ParseFile()
	if err != nil {
		return err.Error()
	}
	withoutEmpty(reflect.ValueOf(tree))
	return tree.String()
}

func withoutEmpty(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			withoutEmpty(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				withoutEmpty(v.Field(i))
			}
		}
	case reflect.Slice:
		if list, ok := reflect.TypeAssert[[]parser.Stmt](v); ok {
			kept := list[:0:0]
			for _, s := range list {
				if _, empty := s.(*parser.EmptyStmt); !empty {
					kept = append(kept, s)
				}
			}
			if v.CanSet() {
				v.Set(reflect.ValueOf(kept))
			}
		}
		for i := range v.Len() {
			withoutEmpty(v.Index(i))
		}
	}
}

func TestFormatMatchesGolden(t *testing.T) {
	messy, err := os.ReadFile("testdata/format/messy.tengo")
	if err != nil {
		t.Fatal(err)
	}
	formatsWell(t, string(messy))
	got, err := reformat(string(messy))
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/format/messy.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestExamplesAreFormatted(t *testing.T) {
	paths, err := filepath.Glob("examples/*.tengo")
	if err != nil || len(paths) == 0 {
		t.Fatal("no examples", err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := reformat(string(text))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(text), got); diff != "" {
			t.Errorf("`writ fmt -w %s` (-is +should be):\n%s", path, diff)
		}
	}
}

func TestFormatRejectsSyntaxErrors(t *testing.T) {
	for _, text := range []string{"a := ", "f(1,,)", "'ab'", "\"", "a\x00", "a := " + strings.Repeat("[", 300) + strings.Repeat("]", 300), strings.Repeat(" ", scripts.MaxSource+1)} {
		if out, err := reformat(text); writ.AsError(err).Code != writ.CodeScriptInvalid || out != "" {
			t.Errorf("%.20q: %q, %v", text, out, err)
		}
	}
}

func TestFormatChangesNoMeaning(t *testing.T) {
	testenv.CheckProperty(t, func(t *rapid.T) {
		w := &wordWriter{t: t}
		w.statements(3)
		w.between(separator)
		formatsWell(t, w.text.String())
	})
}

func FuzzFormat(f *testing.F) {
	for _, pattern := range []string{"examples/*.tengo", "testdata/attacks/*.tengo", "testdata/format/*"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			f.Fatal(pattern, err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(string(text))
		}
	}
	for _, tt := range wrong {
		if len(tt.text) < 1_000 {
			f.Add(tt.text)
		}
	}
	for _, tt := range lints {
		f.Add(tt.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := reformat(text); err == nil {
			formatsWell(t, text)
		}
	})
}

// gap is the kind of text between two tokens.
type gap int

const (
	word      gap = iota // no end of a line, which would end the statement
	anywhere             // anything
	separator            // one or more ends of a statement
	semicolon            // exactly one separator in the head of a loop
)

// wordWriter writes readable sources with a random layout.
type wordWriter struct {
	t    *rapid.T
	text strings.Builder
}

func (w *wordWriter) pick(n int) int { return rapid.IntRange(0, n-1).Draw(w.t, "n") }

// say writes tokens, each after a gap without a line break.
func (w *wordWriter) say(tokens ...string) {
	for _, s := range tokens {
		w.between(word)
		w.text.WriteString(s)
	}
}

// then writes a token after a token that does not end a statement.
func (w *wordWriter) then(s string) {
	w.between(anywhere)
	w.text.WriteString(s)
}

func (w *wordWriter) between(g gap) {
	w.text.WriteByte(' ')
	comment := func() string { return fmt.Sprintf("/* %d */", w.pick(100)) }
	switch {
	case g == semicolon:
		ends := []string{"\n", ";", " // why\n", comment() + ";", "/* a\n b */", "; // why\n"}
		w.text.WriteString(ends[w.pick(len(ends))])
	case g == separator:
		ends := []string{"\n", ";", ";;", "; ", "\n\n\n", " // why\n", ";// why \n // not\n", "; " + comment(), comment() + "\n", "/* a\n b */", "\n" + comment(), "\r\n"}
		w.text.WriteString(ends[w.pick(len(ends))])
	case w.pick(6) > 0:
	case g == anywhere:
		gaps := []string{"\n", "\n\n\n", "\t\n", comment(), " // why\n", "\n// why\n\n", "/* a\n b */", comment() + "\n"}
		w.text.WriteString(gaps[w.pick(len(gaps))])
	default:
		w.text.WriteString(comment())
	}
	w.text.WriteByte(' ')
}

func (w *wordWriter) statements(depth int) {
	for range w.pick(4) {
		w.statement(depth)
		w.between(separator)
	}
}

// block writes a block; its last statement may end with it.
func (w *wordWriter) block(depth int) {
	w.say("{")
	w.between(anywhere)
	w.statements(depth)
	if w.pick(2) == 0 {
		w.statement(depth)
	}
	w.say("}")
}

func (w *wordWriter) statement(depth int) {
	if depth == 0 {
		w.text.WriteString("a")
		w.say([]string{"++", "--"}[w.pick(2)])
		return
	}
	switch w.pick(9) {
	case 0:
		w.text.WriteString("if")
		if w.pick(3) == 0 {
			w.then("i")
			w.say(":=")
			w.between(anywhere)
			w.expression(depth - 1)
			w.between(semicolon)
		}
		w.between(anywhere)
		w.condition(depth - 1)
		w.block(depth - 1)
		if w.pick(2) == 0 {
			w.say("else")
			w.block(depth - 1)
		}
	case 1:
		w.text.WriteString("for")
		switch w.pick(4) {
		case 0:
			w.between(anywhere)
		case 1:
			w.then("k")
			w.say(",")
			w.then("v")
			w.say("in")
			w.between(anywhere)
			w.expression(depth - 1)
		case 2:
			w.then(";")
			w.then(";")
			w.between(anywhere)
		default:
			w.then("i")
			w.say("=")
			w.between(anywhere)
			w.expression(depth - 1)
			w.between(semicolon)
			w.between(anywhere)
			w.condition(depth - 1)
			w.say(";")
			w.then("i")
			w.say("++")
		}
		w.block(depth - 1)
	case 2:
		w.text.WriteString([]string{"return", "break", "continue"}[w.pick(3)])
	case 3:
		w.text.WriteString([]string{"return", "export"}[w.pick(2)])
		w.say("") // a gap
		w.expression(depth - 1)
	case 4, 5:
		w.text.WriteString("a")
		w.say([]string{"=", ":=", "+=", "<<=", "&^="}[w.pick(5)])
		w.between(anywhere)
		w.expression(depth - 1)
	default:
		w.expression(depth)
	}
}

// condition writes an expression that does not begin with a brace.
func (w *wordWriter) condition(depth int) {
	w.bracket("(", ")", func() { w.expression(depth) }, 1, word)
}

func (w *wordWriter) expression(depth int) {
	if depth <= 0 {
		operands := []string{"a", "_b", "1", "0x1f", "1.5", ".5", "1e3", "'c'", `"s"`, "`r`", "`r\n  s`", "true", "undefined", `"ä"`}
		w.text.WriteString(operands[w.pick(len(operands))])
		return
	}
	switch w.pick(13) {
	case 0:
		w.expression(depth - 1)
		w.say([]string{"+", "-", "*", "/", "==", "&&", "||", "&", "^", "&^", "<", ">>"}[w.pick(12)])
		w.between(anywhere)
		w.expression(depth - 1)
	case 1:
		w.text.WriteString([]string{"-", "+", "!", "^"}[w.pick(4)])
		w.between(anywhere)
		w.expression(depth - 1)
	case 2:
		w.expression(depth - 1)
		w.say("?")
		w.between(anywhere)
		w.expression(depth - 1)
		w.say(":")
		w.between(anywhere)
		w.expression(depth - 1)
	case 3:
		w.bracket("(", ")", func() { w.expression(depth - 1) }, 1, word)
	case 4, 5:
		w.bracket("[", "]", func() { w.expression(depth - 1) }, w.pick(4), anywhere)
	case 6, 7:
		w.bracket("{", "}", func() {
			w.text.WriteString([]string{"k", `"k"`}[w.pick(2)])
			w.say(":")
			w.between(anywhere)
			w.expression(depth - 1)
		}, w.pick(4), anywhere)
	case 8:
		w.expression(depth - 1)
		w.bracket("(", ")", func() { w.expression(depth - 1) }, w.pick(4), anywhere)
	case 9:
		w.expression(depth - 1)
		w.say("[")
		w.between(anywhere)
		w.expression(depth - 1)
		if w.pick(2) == 0 {
			w.say(":")
			w.between(anywhere)
			w.expression(depth - 1)
		}
		w.say("]")
	case 10:
		w.expression(depth - 1)
		w.say(".")
		w.then("field")
	case 11:
		w.text.WriteString([]string{"error", "immutable"}[w.pick(2)])
		w.then("(")
		w.between(anywhere)
		w.expression(depth - 1)
		w.say(")")
	default:
		w.text.WriteString("func")
		w.then([]string{"()", "(a)", "( a ,b )", "(a,\n...b)"}[w.pick(4)])
		w.block(depth - 1)
	}
}

// bracket writes n elements in brackets, with the given kind of gap after the last one.
func (w *wordWriter) bracket(open, close string, element func(), n int, last gap) {
	w.text.WriteString(open)
	w.between(anywhere)
	for i := range n {
		if i > 0 {
			w.say(",")
			w.between(anywhere)
		}
		element()
	}
	if last == anywhere || n == 0 {
		w.between(anywhere)
	}
	w.say(close)
}

// withoutCommas replaces each comma before a closing bracket by a space.
func withoutCommas(text string) string {
	clean, comma := []byte(text), -1
	file := parser.NewFileSet().AddFile("", -1, len(text))
	for scanner := parser.NewScanner(file, []byte(text), nil, 0); ; {
		tok, _, pos := scanner.Scan()
		switch tok {
		case token.EOF:
			return string(clean)
		case token.Comma:
			comma = file.Offset(pos)
			continue
		case token.RParen, token.RBrack, token.RBrace:
			if comma >= 0 {
				clean[comma] = ' '
			}
		}
		comma = -1
	}
}

package syntax

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/d5/tengo/v2/parser"
	"github.com/d5/tengo/v2/token"

	"writ/scripts"
	"writ/scripts/diagnostic"
)

// habit is a construct of another language at which the parser failed.
type habit struct {
	at      int    // index of its lexeme in the line
	message string // replaces the message of the parser, unless empty
	help    string
}

// findHabit searches a line with a syntax error for a construct of another language. message is the message of the
// parser.
func findHabit(line []lexeme, message string) *habit {
	for i, l := range line {
		if h := habitAt(line, i, l, message); h != nil {
			h.at += i
			return h
		}
	}
	if len(line) == 0 {
		return nil
	}
	return habitOfLine(line, message)
}

// next reports whether the tokens toks follow the lexeme at i without spaces.
func next(line []lexeme, i int, toks ...token.Token) bool {
	for _, tok := range toks {
		if i++; i >= len(line) || line[i].tok != tok || line[i-1].end() != line[i].offset {
			return false
		}
	}
	return true
}

// foreignOperators lists sequences of tokens that form one operator in other languages.
var foreignOperators = []struct {
	toks []token.Token
	help string
}{
	{[]token.Token{token.Equal, token.Assign}, "== compares two values"},
	{[]token.Token{token.NotEqual, token.Assign}, "!= compares two values"},
	{[]token.Token{token.Assign, token.Not}, "!= compares two values"},
	{[]token.Token{token.Less, token.Greater}, "!= compares two values"},
	{[]token.Token{token.Assign, token.Less}, "write <="},
	{[]token.Token{token.Assign, token.Greater}, "write >=, or func(a) { return … } for a function"},
	{[]token.Token{token.Sub, token.Greater}, "write func(a) { return … } for a function, and a dot for a field"},
	{[]token.Token{token.Question, token.Question}, insteadOfDefault},
	{[]token.Token{token.Question, token.Period}, insteadOfDefault},
	{[]token.Token{token.LAnd, token.Assign}, "write a = a && b"},
	{[]token.Token{token.LOr, token.Assign}, "write a = a || b"},
	{[]token.Token{token.Period, token.Period}, "texts are joined with +"},
	{[]token.Token{token.Mul, token.Mul}, "powers are written x * x"},
}

// habitAt returns the construct that begins with the lexeme l at i, or nil.
func habitAt(line []lexeme, i int, l lexeme, message string) *habit {
	for _, o := range foreignOperators {
		if l.tok == o.toks[0] && next(line, i, o.toks[1:]...) {
			return &habit{help: o.help}
		}
	}
	if i == 0 {
		if h := habitOfStatement(line, l, message); h != nil {
			return h
		}
	}
	switch {
	case l.tok == token.Illegal && strings.HasPrefix(l.text, "#"):
		return &habit{help: insteadOfComment}
	case l.tok == token.Illegal && slices.Contains([]string{"“", "”", "‘", "’", "„", "«"}, l.text):
		return &habit{message: "typographic quotes", help: insteadOfText}
	case strings.Contains(message, "rune literal") && l.tok == token.Char:
		return &habit{message: "a text in single quotes", help: insteadOfText}
	case l.tok == token.Illegal && l.text == "$":
		return &habit{help: "names of variables have no $"}
	case l.tok == token.Ident && slices.Contains([]string{"f", "F", "r", "b", "u", "rf", "fr"}, l.text) &&
		next(line, i, token.String):
		return &habit{help: "write \"web-\" + name, or format(\"web-%d\", n)"}
	case l.tok == token.Import && i+1 < len(line) && line[i+1].tok != token.LParen:
		return &habit{help: insteadOfImport}
	case (l.tok == token.Int || l.tok == token.Float) && next(line, i, token.Ident):
		return &habit{
			message: fmt.Sprintf("%s%s is not a value", l.text, line[i+1].text), help: unitHelp(l.text, line[i+1].text),
		}
	case l.tok == token.String && i+1 < len(line) && line[i+1].tok == token.String:
		return &habit{help: "texts are joined with +"}
	case l.tok == token.Ident && i > 0 && foreignOperator(line, i):
		return &habit{message: l.text + " is not an operator", help: foreignNames[l.text]}
	case l.tok == token.Ident && l.text == "not" && followsWord(line, i):
		return &habit{message: "not is not an operator", help: foreignNames["not"]}
	case l.tok == token.If && i > 0 && (EndsOperand(line[i-1].tok) || expectsOperand(line[i-1].tok)):
		return &habit{help: insteadOfTernary}
	case l.tok == token.For && i > 0 && EndsOperand(line[i-1].tok):
		return &habit{help: "fill the list in a loop: for x in list { all = append(all, x) }"}
	case l.tok == token.Ident && (l.text == "then" || l.text == "do") && i > 0 && i == len(line)-2:
		return &habit{help: insteadOfColon}
	}
	return nil
}

// expectsOperand reports whether a value follows a token.
func expectsOperand(tok token.Token) bool {
	return slices.Contains([]token.Token{
		token.Define, token.Assign, token.Return, token.LParen, token.LBrack, token.Comma, token.Colon, token.Add,
	}, tok)
}

// foreignOperator reports whether the word at i is used as an operator: and, or, is.
func foreignOperator(line []lexeme, i int) bool {
	switch line[i].text {
	case "and", "or", "is":
	default:
		return false
	}
	return EndsOperand(line[i-1].tok) && i+1 < len(line) && line[i+1].tok != token.Semicolon
}

// habitOfStatement returns the construct that the first lexeme of a line reveals, or nil.
func habitOfStatement(line []lexeme, first lexeme, message string) *habit {
	last := len(line) - 1
	if last > 0 && line[last].tok == token.Semicolon {
		last--
	}
	at := 0
	if first.tok == token.RBrace && len(line) > 1 {
		first, at = line[1], 1
	}
	head := first.tok == token.If || first.tok == token.For || first.tok == token.Else || first.text == "while" ||
		first.text == "elif"
	switch {
	case first.tok == token.Dec && first.offset == line[0].offset:
		return &habit{help: insteadOfComment}
	case head && line[last].tok == token.Colon:
		return &habit{at: last, help: insteadOfColon}
	case first.tok == token.If && strings.Contains(message, "found assignment"):
		assigns := slices.IndexFunc(line, func(l lexeme) bool { return l.tok == token.Assign })
		return &habit{at: max(assigns, 0), help: "= assigns; == compares two values"}
	case line[0].tok == token.Else && strings.Contains(message, "found 'else'"):
		return &habit{help: "else belongs on the line of the } before it: } else {"}
	case first.tok == token.Return && strings.Contains(message, "found ','"):
		return &habit{help: "a function returns one value: return [a, b]"}
	case first.tok == token.Func || first.tok == token.Ident || first.tok == token.Import:
		if help := otherLanguages[first.text]; help != "" && len(line) > at+1 && !isUsed(line[at+1].tok) &&
			!strings.HasPrefix(message, "expected map") {
			h := &habit{at: at, help: help}
			if first.tok == token.Ident {
				h.message = fmt.Sprintf("no statement begins with %q", first.text)
			}
			return h
		}
	}
	return nil
}

// isUsed reports whether a token after a name shows that the name is a variable.
func isUsed(tok token.Token) bool {
	switch tok {
	case token.Define, token.Assign, token.AddAssign, token.SubAssign, token.Period, token.LBrack, token.Inc, token.Dec:
		return true
	}
	return false
}

// unitHelp returns the hint for a number with a unit.
func unitHelp(number, unit string) string {
	switch strings.ToLower(unit) {
	case "s", "m", "h", "d", "ms", "us", "ns", "sec", "min":
		return fmt.Sprintf("a duration is a text like \"30s\", \"5m\" or \"2h\": %q", number+unit)
	default:
		return "sizes are whole numbers, and the name of the field has the unit: memory_mib, size_gib"
	}
}

// lineOf returns the lexemes of a line.
func lineOf(all []lexeme, line int) []lexeme {
	begin, _ := slices.BinarySearchFunc(all, line, func(l lexeme, line int) int { return l.line - line })
	end := begin
	for end < len(all) && all[end].line == line {
		end++
	}
	return all[begin:end]
}

// headBefore returns the head of an if or for whose brace is on the next line, where the parser expects a map.
func headBefore(all []lexeme, e *parser.Error) []lexeme {
	if !strings.HasSuffix(e.Msg, "'{', found newline") {
		return nil
	}
	for line := e.Pos.Line; line > max(e.Pos.Line-3, 0); line-- {
		head := lineOf(all, line)
		if len(head) > 0 && (head[0].tok == token.If || head[0].tok == token.For) {
			return head
		}
	}
	return nil
}

// reportSyntax reports the syntax errors of a source. Once the cause of an error is known, later errors without a known
// cause are omitted: they may be consequences.
func (f *Findings) reportSyntax(u *Unit, list parser.ErrorList) {
	all, scanned := lexemes(u)
	var bracketAt parser.Pos
	unpaired := false
	if scanned {
		bracketAt, unpaired = f.reportBracket(u, pairBrackets(all), list)
	}
	known, unterminated, explained := unpaired, false, parser.NoPos
	for _, e := range list {
		at := parser.Pos(u.File.Base + e.Pos.Offset)
		line := lineOf(all, e.Pos.Line)
		if unterminated && strings.HasSuffix(e.Msg, "literal not terminated") {
			continue // the second quotation mark of a text of several lines
		}
		unterminated = unterminated || strings.HasSuffix(e.Msg, "literal not terminated")
		h := findHabit(line, e.Msg)
		if head := headBefore(all, e); h == nil && head != nil {
			line, h = head, &habit{at: len(head) - 1, help: "the { belongs on the same line"}
		}
		help := syntaxHelp(e.Msg)
		if known && h == nil && help == "" && (!unpaired || at >= bracketAt) {
			continue
		}
		message := e.Msg
		if h != nil {
			l := line[h.at]
			at, help, known = parser.Pos(u.File.Base+l.offset), h.help, true
			if at == explained {
				continue
			}
			explained = at
			message = cmp.Or(h.message, message)
		}
		f.Add(diagnostic.CodeSyntax, at, 1, "%s", message).Help = cmp.Or(help, guess(message))
	}
}

// syntaxHelp explains a message of the parser as far as the message determines the cause.
func syntaxHelp(message string) string {
	expected, found, _ := strings.Cut(message, ", found ")
	switch {
	case expected == "expected selector":
		return "a name must follow the dot"
	case expected == "expected operand" && found == "','":
		return "a value is missing before the comma"
	case expected == "expected ')'" && found == "','":
		return "a list of values is written [a, b]"
	case expected == "expected operand" && (found == "'EOF'" || found == "newline"):
		return "a value is missing at the end of the line"
	case expected == "expected ':'" && found == "'='":
		return "an element of a map is written name: value"
	case expected == "expected ':'":
		return "a key of a map with other characters than letters, digits and _ needs quotes: \"a-b\": value"
	case expected == "expected module name":
		return insteadOfImport
	case strings.HasSuffix(message, "literal not terminated"):
		return "a text ends with \" on its line; a text of several lines is in backquotes: `…`"
	case expected == "expected statement" && (found == "'.'" || found == "'&&'" || found == "'||'" || found == "'+'"):
		return "the line before ends too early: " + found + " belongs at its end"
	default:
		return ""
	}
}

// guess returns a hint for a message of the parser that can have many causes.
func guess(message string) string {
	expected, found, _ := strings.Cut(message, ", found ")
	found = scripts.Printable(found)
	switch expected {
	case "expected ';'":
		return "a statement ends with its line; before " + found + " an operator, a comma or a bracket may be missing"
	case "expected '}'", "expected ']'", "expected ')'":
		if beginsValue(found) {
			return "a comma is missing before " + found
		}
	}
	return ""
}

// beginsValue reports whether the last part of a message of the parser is a name or a literal. The parser quotes only
// tokens.
func beginsValue(found string) bool {
	return found != "" && found != "newline" && found[0] != '\''
}

// expectedBefore returns the hint with the place at which the parser expected a closing bracket, or "" at the end of
// the source.
func expectedBefore(want string, e *parser.Error, size int) string {
	if e.Pos.Offset >= size || bytes.HasSuffix([]byte(e.Msg), []byte("found 'EOF'")) {
		return ""
	}
	return fmt.Sprintf("the %s is expected before line %d, column %d", want, e.Pos.Line, e.Pos.Column)
}

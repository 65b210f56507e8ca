package syntax

import (
	"fmt"
	"slices"
	"strings"

	"github.com/d5/tengo/v2/token"
)

// foreignExpressions maps words to hints. In other languages, each word begins an expression and precedes another word.
var foreignExpressions = map[string]string{
	"lambda": insteadOfFunction, "fn": insteadOfFunction, "fun": insteadOfFunction, "function": insteadOfFunction,
	"def":   insteadOfFunction,
	"new":   "objects have no classes: call the operation, as in machine.create(\"web\", {…})",
	"await": insteadOfAwait, "async": insteadOfAwait, "typeof": "write type_name(value)",
}

// foreignRunes maps characters outside of ASCII, as editors and web pages insert them, to their replacements in a
// script.
var foreignRunes = map[string]string{
	"\u00a0": "a plain space", "\u202f": "a plain space", "\u2009": "a plain space", "\u3000": "a plain space",
	"–": "-", "—": "-", "−": "-", "×": "*", "÷": "/", "≤": "<=", "≥": ">=", "≠": "!=", "¬": "!", "…": "...",
	"，": ",", "；": ";", "：": ":", "（": "(", "）": ")",
}

// habitOfLine returns the construct that the whole line with a syntax error reveals, or nil.
func habitOfLine(line []lexeme, message string) *habit {
	for _, rule := range []func([]lexeme, string) *habit{
		habitOfLoop, habitOfFunction, habitOfIf, habitOfWord, habitOfAssignment,
	} {
		if h := rule(line, message); h != nil {
			return h
		}
	}
	return nil
}

// find returns the index of the first lexeme with one of the tokens, or -1.
func find(line []lexeme, toks ...token.Token) int {
	return slices.IndexFunc(line, func(l lexeme) bool { return slices.Contains(toks, l.tok) })
}

func habitOfLoop(line []lexeme, message string) *habit {
	if line[0].tok != token.For {
		return nil
	}
	for i, l := range line[1:] {
		switch {
		case l.tok == token.Ident && l.text == "of" && line[i].tok == token.Ident,
			l.tok == token.Ident && l.text == "range" && line[i].tok == token.Define:
			return &habit{at: i + 1, help: "a loop over a list is written for x in list { … }"}
		case l.tok == token.Float && line[i].tok == token.Float, l.tok == token.Float && line[i].tok == token.Period,
			l.tok == token.Ellipsis:
			return &habit{at: i + 1, help: insteadOfRange}
		}
	}
	if len(line) > 1 && line[1].tok == token.LParen && strings.HasPrefix(message, "expected ')'") {
		return &habit{at: 1, help: "a loop has no parentheses: for i := 0; i < n; i++ { … }"}
	}
	return nil
}

func habitOfFunction(line []lexeme, message string) *habit {
	if find(line, token.Func) < 0 {
		return nil
	}
	switch message {
	case "expected ')', found '='":
		return &habit{at: find(line, token.Assign), help: "parameters have no default values"}
	case "expected ')', found ':'":
		return &habit{at: find(line, token.Colon), help: "parameters have no types: func(a, b) { … }"}
	}
	return nil
}

func habitOfIf(line []lexeme, message string) *habit {
	if line[0].tok != token.If {
		return nil
	}
	if in := find(line, token.In); in > 0 && !strings.HasPrefix(message, "expected '}'") {
		return &habit{
			at:   in,
			help: "in belongs to loops: text.contains(text, part) searches a text, is_undefined(map[key]) a map, a loop a list",
		}
	}
	if message == "missing condition in if statement" && find(line, token.LBrace) < 0 {
		return &habit{help: insteadOfColon}
	}
	return nil
}

// habitOfWord detects words of other languages before another word or value, and single characters.
func habitOfWord(line []lexeme, message string) *habit {
	for i, l := range line {
		switch {
		case l.tok == token.Ident && i > 0 && foreignExpressions[l.text] != "" &&
			(followsWord(line, i) || strings.HasSuffix(message, "found '{'")):
			return &habit{at: i, message: fmt.Sprintf("no expression begins with %q", l.text), help: foreignExpressions[l.text]}
		case l.tok == token.Illegal && foreignRunes[l.text] != "":
			return &habit{at: i, help: "write " + foreignRunes[l.text]}
		case l.tok == token.Illegal && l.text == "@":
			return &habit{at: i, help: "remove it: there are no decorators, and " + insteadOfText}
		case l.tok == token.Ellipsis && strings.HasSuffix(message, "found '...'"):
			return &habit{at: i, help: "lists are joined with +: [1] + others"}
		case l.tok == token.Question && find(line[i:], token.Colon) < 0:
			return &habit{at: i, help: insteadOfTernary}
		}
	}
	return nil
}

// followsWord reports whether a name or a value follows the lexeme at i.
func followsWord(line []lexeme, i int) bool {
	if i+1 >= len(line) {
		return false
	}
	switch line[i+1].tok {
	case token.Ident, token.Int, token.Float, token.String, token.Char, token.True, token.False, token.Undefined,
		token.Func, token.Not:
		return true
	}
	return false
}

// habitOfAssignment detects increments and second assignments in an expression, and names with a colon.
func habitOfAssignment(line []lexeme, message string) *habit {
	step := find(line, token.Inc, token.Dec)
	switch {
	case step == 0:
		return &habit{help: "write the name first: name" + line[0].tok.String()}
	case step > 0 && find(line[:step], token.Define, token.Assign) >= 0:
		return &habit{at: step, help: "it is a statement of its own, on its own line: name" + line[step].tok.String()}
	case line[0].tok == token.Export && strings.HasPrefix(message, "expected ';'"):
		return &habit{help: otherLanguages["export"]}
	case len(line) > 1 && line[0].tok == token.Ident && line[1].tok == token.Colon && message == "expected ';', found ':'":
		return &habit{help: insteadOfVariable}
	}
	if first := find(line, token.Define, token.Assign); first >= 0 &&
		(message == "expected ';', found '='" || message == "expected ';', found ':='") {
		if second := find(line[first+1:], token.Define, token.Assign); second >= 0 {
			return &habit{at: first + 1 + second, help: "a statement assigns once; == compares two values"}
		}
	}
	return nil
}

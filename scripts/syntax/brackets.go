package syntax

import (
	"bytes"
	"cmp"

	"writ/scripts/diagnostic"

	"github.com/d5/tengo/v2/parser"
	"github.com/d5/tengo/v2/token"
)

// lexeme is a token of a source.
type lexeme struct {
	tok    token.Token
	text   string // as in the source; "\n" for the semicolon at the end of a line
	offset int    // in the source
	line   int    // from 1
	indent int    // white space at the beginning of its line, in bytes
}

func (l lexeme) end() int { return l.offset + len(l.text) }

// lexemes returns all tokens of a source. ok is false if the scanner reported an error.
func lexemes(u *Unit) (all []lexeme, ok bool) {
	ok = true
	refuse := func(parser.SourceFilePos, string) { ok = false }
	scanner := parser.NewScanner(u.File, u.Source.Text, refuse, 0)
	for {
		tok, text, pos := scanner.Scan()
		if tok == token.EOF {
			return all, ok
		}
		l := lexeme{tok: tok, text: cmp.Or(text, tok.String()), offset: int(pos) - u.File.Base, line: u.File.Position(pos).Line}
		if last := len(all) - 1; last >= 0 && all[last].line == l.line {
			l.indent = all[last].indent
		} else {
			l.indent = indentAt(u.Source.Text, l.offset)
		}
		all = append(all, l)
	}
}

// indentAt returns the length in bytes of the white space that begins the line of an offset.
func indentAt(text []byte, offset int) int {
	line := text[bytes.LastIndexByte(text[:offset], '\n')+1:]
	return len(line) - len(bytes.TrimLeft(line, " \t"))
}

// closing returns the bracket that closes the bracket `open`, or token.Illegal for other tokens.
func closing(open token.Token) token.Token {
	switch open {
	case token.LParen:
		return token.RParen
	case token.LBrack:
		return token.RBrack
	case token.LBrace:
		return token.RBrace
	default:
		return token.Illegal
	}
}

// bracket is an opening bracket.
type bracket struct {
	lexeme
	list bool // it encloses elements instead of statements
}

// brackets pairs the brackets of a source.
type brackets struct {
	all      []lexeme
	stack    []bracket
	trailing []int // offsets of the commas after the last element of a list
	// The first pair whose closing bracket is indented less than its opening line: an inner bracket is missing.
	misfit   *bracket
	unclosed *bracket // the first opening bracket without its closing bracket
	extra    *lexeme  // the first closing bracket without an opening bracket
}

// pairBrackets pairs the brackets of the tokens of a source.
func pairBrackets(all []lexeme) *brackets {
	b := &brackets{all: all}
	for i, l := range all {
		switch {
		case closing(l.tok) != token.Illegal:
			b.stack = append(b.stack, bracket{lexeme: l, list: l.tok != token.LBrace || i > 0 && literalFollows(all[i-1].tok)})
		case l.tok == token.RParen, l.tok == token.RBrack, l.tok == token.RBrace:
			b.close(i)
		}
	}
	if b.unclosed == nil && len(b.stack) > 0 {
		b.unclosed = &b.stack[len(b.stack)-1]
	}
	if b.unclosed != nil && b.misfit != nil && b.misfit.offset > b.unclosed.offset && b.misfit.tok == b.unclosed.tok {
		b.unclosed = b.misfit
	}
	return b
}

// close pairs the closing bracket at i.
func (b *brackets) close(i int) {
	l := b.all[i]
	open := len(b.stack) - 1
	for open >= 0 && closing(b.stack[open].tok) != l.tok {
		open--
	}
	if open < 0 {
		if b.extra == nil {
			b.extra = &l
		}
		return
	}
	if top := b.stack[len(b.stack)-1]; open < len(b.stack)-1 && b.unclosed == nil {
		b.unclosed = &top
	}
	paired := b.stack[open]
	b.stack = b.stack[:open]
	if b.misfit == nil && paired.line < l.line && l.indent < paired.indent && b.first(i) {
		b.misfit = &paired
	}
	if before := b.before(i); paired.list && before >= 0 && b.all[before].tok == token.Comma &&
		b.all[before].offset > paired.offset {
		if first := b.all[before-1]; closing(first.tok) == token.Illegal && first.tok != token.Comma {
			b.trailing = append(b.trailing, b.all[before].offset)
		}
	}
}

// first reports whether the token at i is the first token of its line.
func (b *brackets) first(i int) bool { return i == 0 || b.all[i-1].line < b.all[i].line }

// before returns the index of the token before i, skipping ends of lines.
func (b *brackets) before(i int) int {
	for i--; i >= 0 && b.all[i].tok == token.Semicolon && b.all[i].text == "\n"; i-- {
	}
	return i
}

// literalFollows reports whether a brace after the token `before` begins a map instead of a block.
func literalFollows(before token.Token) bool {
	switch before {
	case token.LParen, token.LBrack, token.Comma, token.Colon, token.Return, token.Export, token.In, token.Question:
		return true
	case token.Inc, token.Dec, token.RParen, token.RBrack, token.RBrace, token.Semicolon:
		return false
	default:
		return before.IsOperator()
	}
}

// withoutCommas returns a source with spaces in place of the commas after last elements. All other bytes keep their
// offsets. It returns nil if there are no such commas.
func withoutCommas(u *Unit) []byte {
	all, _ := lexemes(u)
	commas := pairBrackets(all).trailing
	if len(commas) == 0 {
		return nil
	}
	text := append([]byte(nil), u.Source.Text...)
	for _, offset := range commas {
		text[offset] = ' '
	}
	return text
}

// reportBracket reports the first bracket without a counterpart and returns its position. Parser errors after that
// position are consequences of it.
func (f *Findings) reportBracket(u *Unit, b *brackets, found parser.ErrorList) (at parser.Pos, reported bool) {
	switch {
	case b.unclosed != nil:
		at = parser.Pos(u.File.Base + b.unclosed.offset)
		d := f.Add(diagnostic.CodeSyntax, at, 1, "this %s is never closed", b.unclosed.text)
		want := closing(b.unclosed.tok).String()
		for _, e := range found {
			if e.Pos.Offset > b.unclosed.offset && e.Pos.Line > b.unclosed.line && b.misfit != b.unclosed {
				d.Help = expectedBefore(want, e, len(u.Source.Text))
				break
			}
		}
		d.Help = cmp.Or(d.Help, "add the "+want+" that belongs to it")
		return at, true
	case b.extra != nil:
		at = parser.Pos(u.File.Base + b.extra.offset)
		f.Add(diagnostic.CodeSyntax, at, 1, "this %s has no opening bracket",
			b.extra.text).Help = "remove it, or add the bracket that it closes"
		return at, true
	default:
		return 0, false
	}
}

// EndsOperand reports whether a token may end an operand, so that an operator, a call or an index may follow.
func EndsOperand(tok token.Token) bool {
	switch tok {
	case token.RParen, token.RBrack, token.RBrace, token.True, token.False, token.Undefined:
		return true
	default:
		return tok.IsLiteral()
	}
}

// Package format lays out the source of a script in one form. The meaning of the script stays the same.
package format

import (
	"slices"
	"strings"

	"github.com/d5/tengo/v2/parser"
	"github.com/d5/tengo/v2/token"

	"writ/scripts"
	"writ/scripts/syntax"
)

// Format returns a source in the one layout of scripts, which follows gofmt as far as Tengo allows: tabs, one statement
// per line, one space between tokens that need any. Line breaks inside of an expression stay; all other line breaks and
// spaces are determined here. Comments keep their place and order. Only white space, unnecessary semicolons and ends of
// lines change, so the meaning stays the same. A formatted source does not change.
//
// The error is SCRIPT_INVALID if the source has syntax errors. Format makes no other checks.
func Format(source scripts.Source) ([]byte, error) {
	u := &syntax.Unit{Source: source, File: parser.NewFileSet().AddFile(source.Name, -1, len(source.Text))}
	f := &syntax.Findings{Units: []*syntax.Unit{u}}
	if f.Parse(u); u.Tree == nil {
		return nil, f.Err()
	}
	r := &pieceReader{braces: make(map[parser.Pos]enclosure), frames: []readFrame{{enclosure: inBlock}}, fresh: true}
	r.findBraces(u.Tree)
	w := &layoutWriter{pieces: r.read(u), frames: []writeFrame{{enclosure: inBlock, broken: true}}}
	return w.write(), nil
}

// enclosure is the kind of a pair of brackets.
type enclosure int

const (
	inList     enclosure = iota + 1 // of expressions or names: f(…), (…), a[…]
	inLiteral                       // a literal map or list: {…}, […]
	inFunction                      // the body of a function, which may stay on one line
	inBlock                         // the body of an if or for, or the file itself, which has no brackets
)

// block reports whether the brackets enclose statements.
func (e enclosure) block() bool { return e == inFunction || e == inBlock }

// piece is a token or a comment with the properties that determine its layout. Semicolons are pieces only in the head
// of an if or for.
type piece struct {
	tok       token.Token
	text      string
	lines     int       // line breaks between the previous piece and this piece
	statement bool      // it begins a statement
	unary     bool      // it is an operator with one operand
	tight     bool      // no space before it
	slice     bool      // it is the colon of a slice: a[1:2]
	opens     enclosure // it is an opening bracket
	closes    enclosure // it is a closing bracket
	broken    bool      // the brackets of a function are not on one line
}

func (p *piece) comment() bool { return p.tok == token.Comment }

// isLineComment reports whether p is a comment that ends with its line.
func (p *piece) isLineComment() bool { return p.comment() && strings.HasPrefix(p.text, "//") }

// pieceReader splits a source without syntax errors into pieces. Tengo's parser drops comments, and its scanner does
// not distinguish the uses of braces and colons; the reader combines both.
type pieceReader struct {
	braces map[parser.Pos]enclosure // opening braces of blocks, not of maps
	pieces []*piece
	frames []readFrame // the innermost is the last
	last   *piece      // the last piece that is not a comment
	line   int         // the line on which the last piece ends
	fresh  bool        // the next piece begins a statement
}

// readFrame is an open pair of brackets.
type readFrame struct {
	enclosure
	open       *piece
	head       bool // inside the head of an if or for
	ternaries  int  // conditional operators without their colon yet
	statements int
	filled     bool // it contains a piece, possibly a comment
	broken     bool // it cannot stay on one line
}

// findBraces records which braces are blocks.
func (r *pieceReader) findBraces(n parser.Node) {
	switch n := n.(type) {
	case *parser.FuncLit:
		r.braces[n.Body.LBrace] = inFunction
	case *parser.BlockStmt:
		if r.braces[n.LBrace] == 0 {
			r.braces[n.LBrace] = inBlock
		}
	}
	syntax.Children(n, r.findBraces)
}

func (r *pieceReader) top() *readFrame { return &r.frames[len(r.frames)-1] }

func (r *pieceReader) read(u *syntax.Unit) []*piece {
	scanner := parser.NewScanner(u.File, u.Text, nil, parser.ScanComments)
	r.line = 1
	for {
		tok, text, pos := scanner.Scan()
		switch {
		case tok == token.EOF:
			return r.pieces
		case tok == token.Semicolon && !r.top().head:
			r.fresh = r.fresh || r.top().block() // inside other brackets, it is only the end of a line
		case tok == token.Semicolon: // the scanner also returns a semicolon for the end of a line
			r.add(&piece{tok: tok, text: ";"}, pos)
		default:
			p := &piece{tok: tok, text: text}
			if text == "" {
				p.text = tok.String()
			}
			if p.isLineComment() {
				p.text = strings.TrimRight(text, " \t\r")
			}
			at := u.File.Position(pos).Line
			p.lines = at - r.line
			r.line = at + strings.Count(text, "\n")
			r.add(p, pos)
		}
	}
}

func (r *pieceReader) add(p *piece, pos parser.Pos) {
	r.pieces = append(r.pieces, p)
	top := r.top()
	if p.lines > 0 || p.isLineComment() || p.comment() && strings.Contains(p.text, "\n") {
		top.broken = true
	}
	if p.comment() {
		top.filled = true
		return
	}
	operand := !r.fresh && r.last != nil && syntax.EndsOperand(r.last.tok)
	switch p.tok {
	case token.RParen, token.RBrack, token.RBrace:
		r.close(p)
	default:
		top.filled = true
		if p.statement = r.fresh; p.statement {
			top.statements++
		}
		r.classify(p, pos, operand)
	}
	r.fresh = p.opens.block()
	r.last = p
}

// classify determines the use of a token. operand reports whether an operand ends before the token.
func (r *pieceReader) classify(p *piece, pos parser.Pos, operand bool) {
	top := r.top()
	switch p.tok {
	case token.If, token.For:
		top.head, top.broken = true, true
	case token.LParen:
		p.opens = inList
		p.tight = operand ||
			!p.statement && r.last != nil &&
				slices.Contains([]token.Token{token.Func, token.Import, token.Error, token.Immutable}, r.last.tok)
	case token.LBrack:
		p.opens = inLiteral
		if operand {
			p.opens, p.tight = inList, true
		}
	case token.LBrace:
		p.opens = inLiteral
		if e := r.braces[pos]; e != 0 {
			p.opens = e
		}
		if p.opens == inBlock {
			top.head = false
		}
	case token.Add, token.Sub, token.Not, token.Xor:
		p.unary = !operand
	case token.Question:
		top.ternaries++
	case token.Colon:
		if top.ternaries > 0 {
			top.ternaries--
			break
		}
		p.tight, p.slice = true, top.enclosure == inList
	}
	if p.opens != 0 {
		r.frames = append(r.frames, readFrame{enclosure: p.opens, open: p})
	}
}

// close ends the innermost frame. If a function has several lines, the brackets around it are broken, too.
func (r *pieceReader) close(p *piece) {
	inner := *r.top()
	r.frames = r.frames[:len(r.frames)-1]
	p.closes = inner.enclosure
	broken := inner.enclosure == inBlock || inner.filled && (inner.broken || inner.statements > 1)
	p.broken, inner.open.broken = broken, broken
	r.top().broken = r.top().broken || inner.broken || broken
}

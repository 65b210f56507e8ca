package format

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/d5/tengo/v2/token"
)

// layoutWriter arranges pieces on lines. The decision to break a line depends only on properties that survive a second
// formatting, so the layout is idempotent.
type layoutWriter struct {
	pieces []*piece
	lines  []layoutLine
	frames []writeFrame // the innermost is the last
	head   int          // indent of the line with the last `func`
	bare   bool         // the line contains only comments so far
}

type layoutLine struct {
	indent int
	blank  bool // an empty line precedes it
	code   strings.Builder
	note   string // the comment at its end
}

// writeFrame is an open pair of brackets.
type writeFrame struct {
	enclosure
	inner, outer int  // indents of lines inside, and of a line that begins with the closing bracket
	broken       bool // every statement is on its own line
	spread       bool // a line ends after the opening bracket
	next         bool // the next piece begins an element
	led          bool // the current element is the first on its line
}

func (w *layoutWriter) top() *writeFrame { return &w.frames[len(w.frames)-1] }

func (w *layoutWriter) line() *layoutLine { return &w.lines[len(w.lines)-1] }

func (w *layoutWriter) write() []byte {
	codes := w.codes()
	var before *piece
	for i, p := range w.pieces {
		code := codes[i]
		if before == nil || w.breaks(before, p) {
			w.lines = append(w.lines, layoutLine{indent: w.indent(p, code), blank: before != nil && w.parts(before, p, code)})
			w.bare = true
			w.top().spread = w.top().spread || before != nil && before.opens != 0
		} else if spaced(before, p) && !(p.isLineComment() && !w.bare) {
			w.line().code.WriteByte(' ')
		}
		w.put(p)
		before = p
	}
	return w.text()
}

// codes returns, for each piece, the first piece at or after it that is not a comment, or nil.
func (w *layoutWriter) codes() []*piece {
	codes := make([]*piece, len(w.pieces))
	var code *piece
	for i, p := range slices.Backward(w.pieces) {
		if !p.comment() {
			code = p
		}
		codes[i] = code
	}
	return codes
}

// put appends a piece to the current line.
func (w *layoutWriter) put(p *piece) {
	if p.isLineComment() && !w.bare {
		w.line().note = p.text
		return
	}
	w.line().code.WriteString(p.text)
	if p.comment() {
		return
	}
	top := w.top()
	if top.next {
		top.next, top.led = false, w.bare
	}
	w.bare = false
	switch {
	case p.closes != 0:
		w.frames = w.frames[:len(w.frames)-1]
	case p.opens != 0:
		outer := w.line().indent
		switch p.opens {
		case inBlock:
			outer = top.inner // its head may have several lines
		case inFunction:
			outer = w.head
		}
		w.frames = append(w.frames,
			writeFrame{enclosure: p.opens, inner: outer + 1, outer: outer, broken: p.broken, next: !p.opens.block()})
	case p.tok == token.Comma:
		top.next = !top.block()
	case p.tok == token.Func:
		w.head = w.line().indent
	}
}

// breaks reports whether p begins a line.
func (w *layoutWriter) breaks(before, p *piece) bool {
	switch {
	case before.isLineComment():
		return true
	case p.comment():
		return p.lines > 0
	case p.closes.block():
		return p.broken
	case p.closes == inLiteral && w.top().spread:
		return true
	case p.statement:
		if before.comment() && w.bare && p.lines == 0 {
			return false // /* why */ x = 1
		}
		return w.top().broken
	case p.lines == 0:
		return false
	default:
		return before.comment() || !joined(before, p)
	}
}

// joined reports whether two pieces stay on one line even if the author broke the line there.
func joined(before, p *piece) bool {
	switch before.tok {
	case token.If, token.For, token.In, token.Else, token.Func, token.Import, token.Error, token.Immutable,
		token.Semicolon:
		return true
	}
	return before.unary || p.opens.block() || before.opens != 0 && p.closes != 0
}

// parts reports whether an empty line before p stays: between statements and between elements, but not next to a
// bracket.
func (w *layoutWriter) parts(before, p, code *piece) bool {
	between := code == nil || code.statement || code.closes != 0 && p != code || w.top().next
	return p.lines > 1 && between && before.opens == 0 && p.closes == 0
}

// indent returns the indent of a line that begins with p. code is the first piece at or after p that is not a comment.
func (w *layoutWriter) indent(p, code *piece) int {
	top := w.top()
	switch {
	case p.closes != 0:
		return top.outer
	case code == nil || code.statement || code.closes != 0 || top.next:
		return top.inner
	case top.block() || top.led:
		return top.inner + 1 // it continues an earlier line
	default:
		return top.inner
	}
}

// spaced reports whether a space belongs between two pieces on one line.
func spaced(before, p *piece) bool {
	number := before.tok == token.Int || before.tok == token.Float
	switch {
	case p.tight:
		return false
	case before.opens == inList || before.opens == inLiteral:
		return false
	case p.closes == inList || p.closes == inLiteral || p.tok == token.Comma:
		return false
	case before.opens == inFunction && p.closes == inFunction:
		return false
	case before.comment() || p.comment():
		return true
	case before.unary:
		return p.unary && p.tok == before.tok && (p.tok == token.Add || p.tok == token.Sub) // - -1 is not --1
	case p.tok == token.Semicolon:
		return before.tok == token.For || before.tok == token.Semicolon
	case p.tok == token.Inc || p.tok == token.Dec || before.slice:
		return false
	case p.tok == token.Period:
		return number // 1 .a is not 1.a
	case p.tok == token.Ellipsis:
		return number || before.tok == token.Comma
	case before.tok == token.Period || before.tok == token.Ellipsis:
		return false
	default:
		return true
	}
}

// text joins the lines. Comments at the ends of consecutive lines are aligned.
func (w *layoutWriter) text() []byte {
	var b []byte
	column := 0
	for i := range w.lines {
		l := &w.lines[i]
		if l.blank {
			b = append(b, '\n')
		}
		for range l.indent {
			b = append(b, '\t')
		}
		code := l.code.String()
		b = append(b, code...)
		if l.note != "" {
			if i == 0 || !aligned(&w.lines[i-1], l) {
				column = w.column(i)
			}
			for range max(1, column-utf8.RuneCountInString(code)) {
				b = append(b, ' ')
			}
			b = append(b, l.note...)
		}
		b = append(b, '\n')
	}
	return b
}

// column returns the common column of the comments at the end of the i-th line and the lines aligned with it.
func (w *layoutWriter) column(i int) int {
	widest := 0
	for ; ; i++ {
		widest = max(widest, utf8.RuneCountInString(w.lines[i].code.String()))
		if i+1 == len(w.lines) || !aligned(&w.lines[i], &w.lines[i+1]) {
			return widest + 1
		}
	}
}

// aligned reports whether the comments at the ends of two consecutive lines begin in the same column.
func aligned(a, b *layoutLine) bool {
	return a.note != "" && b.note != "" && !b.blank && a.indent == b.indent &&
		!strings.Contains(a.code.String(), "\n") && !strings.Contains(b.code.String(), "\n")
}

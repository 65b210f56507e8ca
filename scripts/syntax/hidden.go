package syntax

import (
	"unicode"
	"unicode/utf8"

	"github.com/d5/tengo/v2/parser"

	"writ/internal/hidden"
	"writ/scripts/diagnostic"
)

// maxHidden limits the diagnostics of each code per source.
const maxHidden = 10

// Disguises reports misleading text anywhere in a source: in comments, texts and names. It reports each code at most
// once per line.
func (f *Findings) Disguises(u *Unit) {
	names, text := namesIn(u.Tree), u.Source.Text
	line, reported, found := 1, map[string]int{}, map[string]int{}
	report := func(code string, at, size int, format string, args ...any) *diagnostic.Diagnostic {
		if reported[code] == line || found[code] == maxHidden {
			return &diagnostic.Diagnostic{}
		}
		reported[code], found[code] = line, found[code]+1
		return f.Add(code, parser.Pos(u.File.Base+at), size, format, args...)
	}
	word, mixed := 0, false // the start of the current word, and whether the word contains non-ASCII characters
	end := func(at int) {
		if mixed && hidden.Disguised(string(text[word:at]), names[u.File.Base+word]) {
			report(diagnostic.CodeDisguised, word, at-word, "%q has letters that look like other letters", text[word:at])
		}
		mixed = false
	}
	inWord := false
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRune(text[at:])
		switch letter := r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r); {
		case letter && !inWord:
			word, inWord = at, true
		case !letter && inWord:
			end(at)
			inWord = false
		}
		mixed = mixed || inWord && r >= utf8.RuneSelf
		switch {
		case r == '\r' && at+1 < len(text) && text[at+1] == '\n':
			report(diagnostic.CodeControl, at, size,
				"the line ends with CR LF, as on Windows").Help = "`writ fmt -w` writes Unix line endings; " +
				"`*.tengo text eol=lf` in .gitattributes keeps them"
		case hidden.IsControl(r) && r != 0: // the parser reports NUL
			report(diagnostic.CodeControl, at, size,
				"the character %U is a control character; only tabs and ends of lines are possible", r)
		case hidden.Turns(r):
			report(diagnostic.CodeHidden, at, size, "the character %U changes the direction of the following text", r)
		case hidden.Is(r):
			report(diagnostic.CodeHidden, at, size, "the character %U is invisible", r)
		case r == '\n':
			line++
		}
		at += size
	}
	if inWord {
		end(len(text))
	}
}

// namesIn returns the positions of all names in a tree.
func namesIn(tree *parser.File) map[int]bool {
	names := make(map[int]bool)
	var visit func(n parser.Node)
	visit = func(n parser.Node) {
		switch n := n.(type) {
		case *parser.Ident:
			names[int(n.NamePos)] = true
		case *parser.MapElementLit:
			names[int(n.KeyPos)] = true
		case *parser.MapLit:
			for _, e := range n.Elements {
				names[int(e.KeyPos)] = true
			}
		case *parser.SelectorExpr:
			names[int(n.Sel.Pos())] = true
		}
		Children(n, visit)
	}
	if tree != nil {
		visit(tree)
	}
	return names
}

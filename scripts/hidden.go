package scripts

import (
	"unicode"
	"unicode/utf8"

	"github.com/d5/tengo/v2/parser"

	"writ/internal/hidden"
)

// maxHidden bounds how much a report says of text that reads other than it is, for each source.
const maxHidden = 10

// disguises reports text that reads other than it is, anywhere in a source: in comments, texts and names. One place of a line is enough.
func (c *checker) disguises(u *unit) {
	found := 0
	names := namesIn(u.tree)
	line, said := 1, 0
	word, mixed := 0, false // where the word began, and whether it is more than ASCII
	text := u.source.Text
	end := func(at int) {
		if mixed && said != line && hidden.Disguised(string(text[word:at]), names[u.file.Base+word]) {
			c.add(codeDisguised, parser.Pos(u.file.Base+word), at-word, "%q has letters that look like others", text[word:at])
			found, said = found+1, line
		}
		mixed = false
	}
	inWord := false
	for at := 0; at < len(text) && found < maxHidden; {
		r, size := utf8.DecodeRune(text[at:])
		switch letter := r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r); {
		case letter && !inWord:
			word, inWord = at, true
		case !letter && inWord:
			end(at)
			inWord = false
		}
		mixed = mixed || inWord && r >= utf8.RuneSelf
		if hidden.Is(r) && said != line {
			what := "is not seen"
			if hidden.Turns(r) {
				what = "turns the direction of what follows"
			}
			c.add(codeHidden, parser.Pos(u.file.Base+at), size, "the character %U %s", r, what)
			found, said = found+1, line
		}
		if r == '\n' {
			line++
		}
		at += size
	}
	if inWord {
		end(len(text))
	}
}

// namesIn are the places at which names stand in a tree.
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
		children(n, visit)
	}
	if tree != nil {
		visit(tree)
	}
	return names
}

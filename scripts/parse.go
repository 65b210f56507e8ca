package scripts

import (
	"errors"
	"fmt"

	"github.com/d5/tengo/v2/parser"
	"github.com/d5/tengo/v2/token"
)

// unit is one source of a program: the script itself or a module.
type unit struct {
	source  Source
	text    []byte // the parsed text: the source without trailing commas
	file    *parser.SourceFile
	tree    *parser.File // nil if the source cannot be parsed
	main    bool
	loops   int                  // around the statement of the top level that is looked at
	imports []*parser.ImportExpr // in the order of the text
}

// parse reads the source of u into its tree, if it is within the limits that keep parser and compiler alive.
func (f *findings) parse(u *unit) {
	if len(u.source.Text) > MaxSource {
		f.add(codeTooBig, parser.Pos(u.file.Base), 1, "%s has %d bytes; at most %d are possible", u.source.Name, len(u.source.Text), MaxSource)
		return
	}
	if pos := tooDeep(u); pos.IsValid() {
		f.add(codeTooDeep, pos, 1, "nested deeper than %d", maxNesting)
		return
	}
	tree, err := parseFile(u)
	var list parser.ErrorList
	switch {
	case errors.As(err, &list):
		f.reportSyntax(u, list)
	case err != nil:
		f.add(codeSyntax, parser.Pos(u.file.Base), 1, "the source cannot be read: %v", err)
	default:
		m := measure{findings: f}
		m.node(tree, 0, 0)
		if !m.failed {
			u.tree = tree
		}
	}
}

// parseFile parses a source. A comma after the last element of a list, map or call is accepted, which Tengo's parser
// refuses: the source is parsed again without such commas.
func parseFile(u *unit) (*parser.File, error) {
	tree, err := parseText(u, u.source.Text)
	if err == nil {
		u.text = u.source.Text
		return tree, nil
	}
	text := withoutCommas(u)
	if text == nil {
		return nil, err
	}
	if tree, err = parseText(u, text); err == nil {
		u.text = text
	}
	return tree, err
}

// parseText parses; the parser panics on some texts.
func parseText(u *unit, text []byte) (tree *parser.File, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	return parser.NewParser(u.file, text, nil).ParseFile()
}

// tooDeep returns the place where the tokens of u are nested too deeply for the parser, which recurses with them.
func tooDeep(u *unit) parser.Pos {
	scanner := parser.NewScanner(u.file, u.source.Text, nil, 0)
	open := []int{0} // per open bracket: what else nests inside it
	depth := 0
	for {
		tok, _, pos := scanner.Scan()
		switch tok {
		case token.EOF:
			return parser.NoPos
		case token.LParen, token.LBrack, token.LBrace:
			open = append(open, 0)
			depth++
		case token.RParen, token.RBrack, token.RBrace:
			if len(open) > 1 {
				depth -= open[len(open)-1] + 1
				open = open[:len(open)-1]
			}
		case token.Not, token.Sub, token.Add, token.Xor, token.Question, token.Else:
			// Signs, ternaries and else-ifs make the parser recurse without brackets. Binary signs are counted too, and forgotten at
			// the next operand.
			open[len(open)-1]++
			depth++
		case token.Semicolon, token.Comma:
			depth -= open[len(open)-1]
			open[len(open)-1] = 0
		}
		if depth > maxNesting+maxTerms {
			return pos
		}
		if len(open) > maxNesting+1 {
			return pos
		}
	}
}

// measure finds what is too big in a tree.
type measure struct {
	*findings
	failed bool
	deep   bool // which is said once: everything further inside is so, too
}

func (m *measure) refuse(code string, n parser.Node, format string, args ...any) {
	m.failed = true
	m.at(code, n, format, args...)
}

// node measures n, which is depth deep, and so many operators of chains deeper in the tree. What is too deep is not looked into.
func (m *measure) node(n parser.Node, depth, terms int) {
	switch n := n.(type) {
	case *parser.BinaryExpr:
		m.chain(n, depth, terms)
		return
	case *parser.AssignStmt:
		m.target(n.LHS[0])
	case *parser.IncDecStmt:
		m.target(n.Expr)
	case *parser.ArrayLit:
		m.elements(n, len(n.Elements))
	case *parser.MapLit:
		m.elements(n, len(n.Elements))
	case *parser.CallExpr:
		if len(n.Args) > maxArguments {
			m.refuse(codeTooManyArgs, n, "%d arguments; at most %d are possible", len(n.Args), maxArguments)
		}
	case *parser.FuncLit:
		if len(n.Type.Params.List) > maxArguments {
			m.refuse(codeTooManyArgs, n, "%d parameters; at most %d are possible", len(n.Type.Params.List), maxArguments)
		}
	case *parser.ForInStmt:
		if n.Key == nil || n.Value == nil {
			m.refuse(codeSyntax, n, "`for … in` takes one variable or two")
			return
		}
	}
	if depth++; depth > 2*maxNesting { // a statement in a block counts twice
		if !m.deep {
			m.refuse(codeTooDeep, n, "nested deeper than %d", maxNesting)
		}
		m.deep = true
		return
	}
	children(n, func(c parser.Node) { m.node(c, depth, terms) })
}

// chain measures a chain of binary operators, which leans to the left and is no nesting: a + b + c. The tree is as deep as it is long.
func (m *measure) chain(n *parser.BinaryExpr, depth, terms int) {
	var e parser.Expr = n
	for {
		b, ok := e.(*parser.BinaryExpr)
		if !ok {
			break
		}
		if terms++; terms >= maxTerms {
			m.refuse(codeTooDeep, n, "more than %d operands in one expression", maxTerms)
			return
		}
		m.node(b.RHS, depth+1, terms)
		e = b.LHS
	}
	m.node(e, depth+1, terms)
}

// target measures what is assigned to: the VM counts the keys and indexes in a byte.
func (m *measure) target(e parser.Expr) {
	for n := 0; ; n++ {
		switch t := e.(type) {
		case *parser.SelectorExpr:
			e = t.Expr
		case *parser.IndexExpr:
			e = t.Expr
		default:
			if n > maxArguments {
				m.refuse(codeTooDeep, e, "an element of an element, %d deep; at most %d are possible", n, maxArguments)
				m.deep = true
			}
			return
		}
	}
}

func (m *measure) elements(n parser.Node, count int) {
	if count > maxElements {
		m.refuse(codeLongLiteral, n, "%d elements; at most %d can be written out", count, maxElements)
	}
}

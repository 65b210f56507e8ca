package scripts

import (
	"errors"
	"fmt"
	"writ/scripts/diagnostic"

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
	loops   int                  // around the current statement of the top level
	imports []*parser.ImportExpr // in the order of the text
}

// parse parses the source of u, if it is within the limits of parser and compiler.
func (f *findings) parse(u *unit) {
	if len(u.source.Text) > MaxSource {
		f.add(diagnostic.CodeTooBig, parser.Pos(u.file.Base), 1, "%s has %d bytes; at most %d are possible", u.source.Name, len(u.source.Text), MaxSource)
		return
	}
	if pos := tooDeep(u); pos.IsValid() {
		f.add(diagnostic.CodeTooDeep, pos, 1, "nested deeper than %d", maxNesting)
		return
	}
	tree, err := parseFile(u)
	var list parser.ErrorList
	switch {
	case errors.As(err, &list):
		f.reportSyntax(u, list)
	case err != nil:
		f.add(diagnostic.CodeSyntax, parser.Pos(u.file.Base), 1, "the source cannot be read: %v", err)
	default:
		m := measure{findings: f}
		m.node(tree, 0, 0)
		if !m.failed {
			u.tree = tree
		}
	}
}

// parseFile parses a source. It accepts a comma after the last element of a list, map or call, which Tengo's parser
// rejects: it parses the source again without such commas.
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

// parseText parses a text and recovers from panics of the parser.
func parseText(u *unit, text []byte) (tree *parser.File, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	return parser.NewParser(u.file, text, nil).ParseFile()
}

// tooDeep returns the position at which the tokens of u are nested too deeply for the recursive parser.
func tooDeep(u *unit) parser.Pos {
	scanner := parser.NewScanner(u.file, u.source.Text, nil, 0)
	open := []int{0} // per open bracket: other nesting inside it
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
			// Signs, ternaries and else-ifs make the parser recurse without brackets. Binary signs are counted, too,
			// but reset at the next end of a statement or element.
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

// measure reports nodes of a tree that exceed a limit.
type measure struct {
	*findings
	failed bool
	deep   bool // excessive depth was reported; deeper nodes are not reported again
}

func (m *measure) refuse(code string, n parser.Node, format string, args ...any) {
	m.failed = true
	m.at(code, n, format, args...)
}

// node measures n at the given depth. Chains of operators add terms to the depth of the tree. Nodes below the limit of
// depth are skipped.
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
		if len(n.Args) > maxCallArguments {
			m.refuse(diagnostic.CodeTooManyArguments, n, "%d arguments; at most %d are possible", len(n.Args), maxCallArguments)
		}
	case *parser.FuncLit:
		if len(n.Type.Params.List) > maxCallArguments {
			m.refuse(diagnostic.CodeTooManyArguments, n, "%d parameters; at most %d are possible", len(n.Type.Params.List), maxCallArguments)
		}
	case *parser.ForInStmt:
		if n.Key == nil || n.Value == nil {
			m.refuse(diagnostic.CodeSyntax, n, "`for … in` takes one variable or two")
			return
		}
	}
	if depth++; depth > 2*maxNesting { // a statement in a block counts twice
		if !m.deep {
			m.refuse(diagnostic.CodeTooDeep, n, "nested deeper than %d", maxNesting)
		}
		m.deep = true
		return
	}
	children(n, func(c parser.Node) { m.node(c, depth, terms) })
}

// chain measures a chain of binary operators: a + b + c. It leans to the left and does not count as nesting, but its
// tree is as deep as the chain is long.
func (m *measure) chain(n *parser.BinaryExpr, depth, terms int) {
	var e parser.Expr = n
	for {
		b, ok := e.(*parser.BinaryExpr)
		if !ok {
			break
		}
		if terms++; terms >= maxTerms {
			m.refuse(diagnostic.CodeTooDeep, n, "more than %d operands in one expression", maxTerms)
			return
		}
		m.node(b.RHS, depth+1, terms)
		e = b.LHS
	}
	m.node(e, depth+1, terms)
}

// target measures the target of an assignment: the VM counts its keys and indexes in a byte.
func (m *measure) target(e parser.Expr) {
	for n := 0; ; n++ {
		switch t := e.(type) {
		case *parser.SelectorExpr:
			e = t.Expr
		case *parser.IndexExpr:
			e = t.Expr
		default:
			if n > maxCallArguments {
				m.refuse(diagnostic.CodeTooDeep, e, "an element of an element, %d deep; at most %d are possible", n, maxCallArguments)
				m.deep = true
			}
			return
		}
	}
}

func (m *measure) elements(n parser.Node, count int) {
	if count > maxElements {
		m.refuse(diagnostic.CodeLongLiteral, n, "%d elements; a literal may have at most %d", count, maxElements)
	}
}

package syntax

import (
	"errors"
	"fmt"

	"github.com/d5/tengo/v2/parser"
	"github.com/d5/tengo/v2/token"

	"writ/scripts"
	"writ/scripts/diagnostic"
)

// Unit is one source of a program: the script itself or a module.
type Unit struct {
	Source  scripts.Source
	Text    []byte // the parsed text: the source without trailing commas
	File    *parser.SourceFile
	Tree    *parser.File // nil if the source cannot be parsed
	Main    bool
	loops   int                  // number of loops around the current statement of the top level
	Imports []*parser.ImportExpr // in the order of the text
	// Interpolations are the texts with `${name}`, in the order of the text.
	Interpolations []Interpolation
}

// Parse parses the source of u, if it is within the limits of parser and compiler.
func (f *Findings) Parse(u *Unit) {
	if len(u.Source.Text) > scripts.MaxSource {
		f.Add(diagnostic.CodeTooBig, parser.Pos(u.File.Base), 1, "%s has more than %d bytes", u.Source.Name,
			scripts.MaxSource) // readers of files stop after the limit, so the length is unknown
		return
	}
	if pos := tooDeep(u); pos.IsValid() {
		f.Add(diagnostic.CodeTooDeep, pos, 1, "nested deeper than %d", maxNesting)
		return
	}
	tree, err := parseFile(u)
	var list parser.ErrorList
	switch {
	case errors.As(err, &list):
		f.reportSyntax(u, list)
	case err != nil:
		f.Add(diagnostic.CodeSyntax, parser.Pos(u.File.Base), 1, "the source cannot be read: %v", err)
	default:
		m := measure{Findings: f}
		m.node(tree, 0, 0)
		if !m.failed {
			u.Tree = tree
		}
	}
}

// parseFile parses a source. It accepts a comma after the last element of a list, map or call, which Tengo's parser
// rejects: it parses the source again without such commas.
func parseFile(u *Unit) (*parser.File, error) {
	tree, err := parseText(u, u.Source.Text)
	if err == nil {
		u.Text = u.Source.Text
		return tree, nil
	}
	text := withoutCommas(u)
	if text == nil {
		return nil, err
	}
	if tree, err = parseText(u, text); err == nil {
		u.Text = text
	}
	return tree, err
}

// parseText parses a text and recovers from panics of the parser.
func parseText(u *Unit, text []byte) (tree *parser.File, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	return parser.NewParser(u.File, text, nil).ParseFile()
}

// tooDeep returns the position at which the tokens of u are nested too deeply for the recursive parser.
func tooDeep(u *Unit) parser.Pos {
	scanner := parser.NewScanner(u.File, u.Source.Text, nil, 0)
	open := []int{0} // for each open bracket, the nesting inside it without brackets
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
	*Findings
	failed bool
	deep   bool // excessive depth was reported; deeper nodes are not reported again
}

func (m *measure) refuse(code string, n parser.Node, format string, args ...any) {
	m.failed = true
	m.At(code, n, format, args...)
}

// node measures n at the given depth. Chains of operators add terms to the depth of the tree. Nodes deeper than the
// limit are skipped.
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
		if len(n.Args) > MaxCallArguments {
			m.refuse(diagnostic.CodeTooManyArguments, n, "%d arguments; at most %d are possible", len(n.Args), MaxCallArguments)
		}
	case *parser.FuncLit:
		if len(n.Type.Params.List) > MaxCallArguments {
			m.refuse(diagnostic.CodeTooManyArguments, n, "%d parameters; at most %d are possible", len(n.Type.Params.List),
				MaxCallArguments)
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
	Children(n, func(c parser.Node) { m.node(c, depth, terms) })
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
			if n > MaxCallArguments {
				m.refuse(diagnostic.CodeTooDeep, e, "an element of an element, %d deep; at most %d are possible", n,
					MaxCallArguments)
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

// Limits of a source. The compiler and the VM of Tengo truncate operands to 8 and 16 bits without an error: more than
// 256 variables of a function, 255 arguments or 65,536 constants give wrong results. They have 1,024 global variables
// and a stack of 2,048 values, and recurse as deeply as the source is nested. The limits stay below these values.
const (
	maxNesting       = 200   // depth of brackets, operators and blocks
	maxTerms         = 1_000 // operands of one chain of binary operators
	maxElements      = 1_000 // elements of a literal list or map
	MaxCallArguments = 250   // of one call, and parameters of one function
	maxLocals        = 250   // variables of one function that are alive at the same time
	maxCaptured      = 250   // variables of outer functions that one function uses
	maxGlobals       = 1_000 // variables at the top level, including its blocks
)

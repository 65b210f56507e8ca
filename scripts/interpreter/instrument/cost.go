package instrument

import (
	"github.com/d5/tengo/v2/parser"

	"writ/scripts/syntax"
)

// cost counts the nodes that an evaluation of n evaluates, without nodes that burn fuel themselves. A node that makes a
// value counts more: about one unit for 6 bytes.
func cost(n parser.Node) int {
	sum := 1
	switch n := n.(type) {
	case nil:
		return 0
	case *parser.FuncLit:
		return 24 // a closure; its body burns fuel when it is called
	case *parser.ForStmt:
		return 1 + cost(n.Init)
	case *parser.ForInStmt:
		return 16 + cost(n.Iterable)
	case *parser.MapLit:
		sum = 58 + 8*len(n.Elements)
	case *parser.ArrayLit:
		sum = 10 + 3*len(n.Elements)
	case *parser.CallExpr:
		sum = 4 + 3*len(n.Args)
	case *parser.SliceExpr, *parser.ImmutableExpr, *parser.ErrorExpr:
		sum = 8
	case *parser.StringLit:
		sum += len(n.Value) / 64 // it may be compared
	case *parser.BinaryExpr, *parser.UnaryExpr:
		sum = 3
	}
	syntax.Children(n, func(c parser.Node) { sum += cost(c) })
	return sum
}

package operation

import (
	"slices"

	"writ/sal/catalog"
)

// Arity returns the minimum and maximum number of arguments of op.
func Arity(op *catalog.Operation) (least, most int) {
	if op.Named() {
		least, most = 1, 1
	}
	switch {
	case op.Effect == catalog.Find:
		return least, most
	case slices.ContainsFunc(op.Args, func(f catalog.Field) bool { return f.Required }):
		least++
	}
	return least, most + 2
}

// Arguments describes the arguments of op, for errors.
func Arguments(op *catalog.Operation) string {
	if op.Effect == catalog.Find {
		if op.Named() {
			return "a name"
		}
		return "no arguments"
	}
	if op.Named() {
		return "a name, a spec and options"
	}
	return "a spec and options"
}

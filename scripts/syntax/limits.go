package syntax

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

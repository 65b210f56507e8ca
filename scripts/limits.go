package scripts

// What a source may hold. The compiler and the VM of Tengo truncate operands to 8 and 16 bits without an error (more than 256
// variables of a function, 255 arguments, 65,536 constants give wrong results), keep 1,024 global variables and a stack of 2,048
// values, and recurse with the source. The limits stay below that.
const (
	MaxSource    = 64 << 10  // bytes of one file
	MaxBundle    = 512 << 10 // bytes of all files of a bundle
	maxNesting   = 200       // brackets, operators and blocks inside each other
	maxTerms     = 1_000     // operands of one chain of binary operators
	maxElements  = 1_000     // of a list or map that is written out
	maxArguments = 250       // of one call, and parameters of one function
	maxLocals    = 250       // variables of one function that are alive together
	maxCaptured  = 250       // variables of outer functions that one function uses
	maxGlobals   = 1_000     // variables at the top level, those in its blocks included
	maxConstants = 65_000    // literals of a program with all its modules
)

// What a run may do. Each is counted, so that it ends a run at the same place in every pass.
const (
	MaxCalls     = 2_000     // calls of a run
	MaxArguments = 64 << 10  // bytes of the arguments of a call, encoded
	MaxResult    = 64 << 10  // bytes of the values of a result, and of a run's output
	MaxJournal   = 4 << 20   // bytes of the arguments and results of a run's calls
	MaxLogLine   = 4 << 10   // bytes; the rest of a longer line is cut off
	MaxLogLines  = 1_000     // lines; the last says that there were more
	maxString    = 256 << 10 // bytes of a string or of bytes
	maxDepth     = 64        // of values that are printed, compared, copied or encoded
)

// MaxFuel bounds the work of one pass. A unit is about one node of the syntax tree that is evaluated, 16 bytes that a function of Go
// reads, or 6 bytes that may stay in memory: 10 million are less than a second, and at most a third of the 256 MiB that a child has.
const MaxFuel = 10_000_000

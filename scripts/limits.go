package scripts

// Limits of a source. The compiler and the VM of Tengo truncate operands to 8 and 16 bits without an error: more than
// 256 variables of a function, 255 arguments or 65,536 constants give wrong results. They have 1,024 global variables
// and a stack of 2,048 values, and recurse with the source. The limits stay below these values.
const (
	MaxSource    = 64 << 10  // bytes of one file
	MaxBundle    = 512 << 10 // bytes of all files of a bundle
	maxNesting   = 200       // depth of brackets, operators and blocks
	maxTerms     = 1_000     // operands of one chain of binary operators
	maxElements  = 1_000     // elements of a literal list or map
	maxArguments = 250       // of one call, and parameters of one function
	maxLocals    = 250       // variables of one function that are alive at the same time
	maxCaptured  = 250       // variables of outer functions that one function uses
	maxGlobals   = 1_000     // variables at the top level, including its blocks
	maxConstants = 65_000    // literals of a program with all its modules
)

// Limits of a run. Each of them is counted, so every pass of a run hits a limit at the same place.
const (
	MaxCalls     = 2_000     // calls of a run
	MaxArguments = 64 << 10  // bytes of the arguments of a call, encoded
	MaxResult    = 64 << 10  // bytes of the values of a result, and of a run's output
	MaxJournal   = 4 << 20   // bytes of the arguments and results of a run's calls
	MaxLogLine   = 4 << 10   // bytes; longer lines are cut off
	maxTrace     = 32        // positions of an error
	MaxLogLines  = 1_000     // lines; the last one reports the omission of more
	maxString    = 256 << 10 // bytes of a string or of bytes
	maxDepth     = 64        // of values that are printed, compared, copied or encoded
)

// MaxFuel limits the work of one pass. A unit is about one evaluated node of the syntax tree, 16 bytes read by a Go
// function, or 6 bytes that may stay in memory. 10 million units take less than a second, and at most a third of the
// 256 MiB of a child.
const MaxFuel = 10_000_000

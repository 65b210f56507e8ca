package scripts

// Limits of the sources of a run.
const (
	MaxSource  = 64 << 10  // bytes of one file
	MaxBundle  = 512 << 10 // bytes of all files of a bundle
	MaxPattern = 1_000     // bytes of a regular expression
)

// Limits of a run. They limit counts, not times, so every pass of a run exceeds a limit at the same place.
const (
	MaxCalls     = 10_000   // calls of a run
	UsualCalls   = 2_000    // calls of a run if its signer gives no other limit
	MaxOpenCalls = 2_000    // the last calls of a run, which may be open: a call waits until all before them have ended
	MaxArguments = 64 << 10 // bytes of the arguments of a call, encoded
	MaxResult    = 64 << 10 // bytes of the values of a result, and of a run's output
	MaxJournal   = 6 << 20  // bytes of the arguments and results of a run's calls
	MaxLogLine   = 4 << 10  // bytes; longer lines are cut off
	MaxTrace     = 32       // positions of an error
	MaxLogLines  = 1_000    // lines; the last line reports that further lines were omitted
)

// MaxFuel limits the work of one pass. A unit is about one evaluated node of the syntax tree, 16 bytes read by a Go
// function, or 6 bytes that may stay in memory. 10 million units take less than a second, and at most a third of the
// 256 MiB of a child.
const MaxFuel = 10_000_000

package interpreter

// Limits of a program and its values.
const (
	maxConstants = 65_000    // literals of a program with all its modules
	maxString    = 256 << 10 // bytes of a string or of bytes
	maxDepth     = 64        // of values that are printed, compared, copied or encoded
)

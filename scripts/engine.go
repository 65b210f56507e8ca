package scripts

// Engine names the interpreter and the semantics of operations that this program signs for. Both are part of what a signature
// means: a journal must replay under the engine that wrote it.
const Engine = "tengo/2.17.0 api/1"

// Engines lists the engines that this program can run, the one that it signs for first.
func Engines() []string { return []string{Engine} }

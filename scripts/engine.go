package scripts

// Engine names the interpreter and the semantics of operations. Both are part of every signature, because a journal
// must replay under the engine that wrote it.
const Engine = "tengo/2.17.0 api/1"

// Engines lists the engines that this program can run. New signatures name the first.
func Engines() []string { return []string{Engine} }

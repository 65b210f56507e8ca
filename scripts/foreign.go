package scripts

import "bytes"

const (
	foreignVariable = "a variable is made with name := value"
	foreignFunction = "a function is a value: name := func(a, b) { … }"
	foreignChoice   = "choices are written if … { … } else if … { … }"
	foreignFailure  = "the err of a handle is what went wrong; run.fail(\"why\") ends the run"
)

// foreign are words with which statements begin in other languages, and what is written here instead.
var foreign = map[string]string{
	"let": foreignVariable, "var": foreignVariable, "const": foreignVariable, "local": foreignVariable,
	"fn": foreignFunction, "def": foreignFunction, "function": foreignFunction, "func": foreignFunction,
	"while": "a loop with a condition is written for condition { … }",
	"loop":  "a loop without an end is written for { … }",
	"elif":  foreignChoice, "elsif": foreignChoice, "switch": foreignChoice, "match": foreignChoice, "case": foreignChoice,
	"try": foreignFailure, "catch": foreignFailure, "throw": foreignFailure, "raise": foreignFailure,
	"resource": "a resource is what a call asks for: machine.create(\"web\", {…})",
	"variable": "parameters are declared as params := {name: {type: \"int\"}}",
	"output":   "what a run hands out is run.output({…})",
}

// foreignHelp helps those who write another language: if the line with the mistake begins with one of its words, it says what to write.
func foreignHelp(text []byte, offset int) string {
	const longest = 16 // bytes of a word
	line := text[bytes.LastIndexByte(text[:min(offset, len(text))], '\n')+1:]
	line = bytes.TrimLeft(line, "\t }")
	line = line[:min(len(line), longest)]
	end := bytes.IndexFunc(line, func(r rune) bool { return r < 'a' || r > 'z' })
	if end < 0 {
		return ""
	}
	return foreign[string(line[:end])]
}

package scripts

import "bytes"

const (
	insteadOfVariable = "a variable is made with name := value"
	insteadOfFunction = "a function is a value: name := func(a, b) { … }"
	insteadOfChoice   = "choices are written if … { … } else if … { … }"
	insteadOfFailure  = "the err of a handle is what went wrong; run.fail(\"why\") ends the run"
)

// otherLanguages are words with which statements begin in other languages, and what is written here instead.
var otherLanguages = map[string]string{
	"let": insteadOfVariable, "var": insteadOfVariable, "const": insteadOfVariable, "local": insteadOfVariable,
	"fn": insteadOfFunction, "def": insteadOfFunction, "function": insteadOfFunction, "func": insteadOfFunction,
	"while": "a loop with a condition is written for condition { … }",
	"loop":  "a loop without an end is written for { … }",
	"elif":  insteadOfChoice, "elsif": insteadOfChoice, "switch": insteadOfChoice, "match": insteadOfChoice, "case": insteadOfChoice,
	"try": insteadOfFailure, "catch": insteadOfFailure, "throw": insteadOfFailure, "raise": insteadOfFailure,
	"resource": "a resource is what a call asks for: machine.create(\"web\", {…})",
	"variable": "parameters are declared as params := {name: {type: \"int\"}}",
	"output":   "what a run hands out is run.output({…})",
}

// otherLanguageHelp helps those who write another language: if the line with the mistake begins with one of its words, it says what to write.
func otherLanguageHelp(text []byte, offset int) string {
	const longest = 16 // bytes of a word
	line := text[bytes.LastIndexByte(text[:min(offset, len(text))], '\n')+1:]
	line = bytes.TrimLeft(line, "\t }")
	line = line[:min(len(line), longest)]
	end := bytes.IndexFunc(line, func(r rune) bool { return r < 'a' || r > 'z' })
	if end < 0 {
		return ""
	}
	return otherLanguages[string(line[:end])]
}

package scripts

import "slices"

// Severity is error or warning. Only an error stops a script.
type Severity string

// The severities.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
)

// CodeInfo describes the code of a diagnostic.
type CodeInfo struct {
	Code     string   `json:"code"`
	Severity Severity `json:"severity"`
	Title    string   `json:"title"`
	Explain  string   `json:"explain"` // meaning and remedy, for `writ explain`
	Wrong    string   `json:"wrong"`   // a script with this diagnostic and no other
	Right    string   `json:"right"`   // the corrected script, without any diagnostic
}

// The codes of diagnostics: 00 the source and its size, 01 operations and their arguments, 02 names and imports, 03
// parameters, 04 valid code that is most likely a mistake, 05 tests.
const (
	codeSyntax       = "W0001"
	codeTooBig       = "W0002"
	codeTooDeep      = "W0003"
	codeTooManyVars  = "W0004"
	codeTooManyArgs  = "W0005"
	codeLongLiteral  = "W0006"
	codeTooManyConst = "W0007"
	codeCompiler     = "W0008"
	codeControl      = "W0009"

	codeUnknownMember  = "W0101"
	codeArity          = "W0102"
	codeArgument       = "W0103"
	codeUnknownField   = "W0104"
	codeFieldType      = "W0105"
	codeFieldMissing   = "W0106"
	codeUnknownOption  = "W0107"
	codeOptionValue    = "W0108"
	codeResourceName   = "W0109"
	codeHandleField    = "W0110"
	codeModuleAsValue  = "W0111"
	codeDuplicateKey   = "W0112"
	codeSecretPlace    = "W0113"
	codeSecretName     = "W0114"
	codeManyCalls      = "W0115"
	codeUnresolved     = "W0201"
	codeRedeclared     = "W0202"
	codeBuiltinName    = "W0203"
	codeUnknownModule  = "W0204"
	codeImportCycle    = "W0205"
	codeReservedModule = "W0206"
	codeMisplaced      = "W0207"
	codeAssignment     = "W0208"
	codeExportIgnored  = "W0209"

	codeParamsLiteral = "W0301"
	codeParamSchema   = "W0302"
	codeParamDefault  = "W0303"
	codeUnknownParam  = "W0304"
	codeParamsRead    = "W0305"

	codeUnusedResult   = "W0401"
	codeUnusedVariable = "W0402"
	codeUnusedImport   = "W0403"
	codeUnusedParam    = "W0404"
	codeMissingKey     = "W0405"
	codeNeverEqual     = "W0406"
	codeAlwaysTrue     = "W0407"
	codeHiddenImport   = "W0408"
	codeUnreachable    = "W0409"
	codeLateVariable   = "W0410"
	codeSameEachRound  = "W0411"
	codeSplitGroup     = "W0412"

	codeHidden    = "W0413"
	codeDisguised = "W0414"

	codeUnordered = "W0415"

	codeTestOperation = "W0501"
	codeTestMember    = "W0502"
	codeTestShape     = "W0503"
	codeTestOption    = "W0504"
)

// LookupCode returns the row of a code in Codes.
func LookupCode(code string) (CodeInfo, bool) {
	i := slices.IndexFunc(Codes, func(c CodeInfo) bool { return c.Code == code })
	if i < 0 {
		return CodeInfo{}, false
	}
	return Codes[i], true
}

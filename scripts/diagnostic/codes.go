package diagnostic

import "slices"

// Severity is error or warning. Only an error stops a script.
type Severity string

// The severities.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
)

// Info describes the code of a diagnostic.
type Info struct {
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
	CodeSyntax           = "W0001"
	CodeTooBig           = "W0002"
	CodeTooDeep          = "W0003"
	CodeTooManyVariables = "W0004"
	CodeTooManyArguments = "W0005"
	CodeLongLiteral      = "W0006"
	CodeTooManyConstants = "W0007"
	CodeCompiler         = "W0008"
	CodeControl          = "W0009"

	CodeUnknownMember  = "W0101"
	CodeArity          = "W0102"
	CodeArgument       = "W0103"
	CodeUnknownField   = "W0104"
	CodeFieldType      = "W0105"
	CodeFieldMissing   = "W0106"
	CodeUnknownOption  = "W0107"
	CodeOptionValue    = "W0108"
	CodeResourceName   = "W0109"
	CodeHandleField    = "W0110"
	CodeModuleAsValue  = "W0111"
	CodeDuplicateKey   = "W0112"
	CodeSecretPlace    = "W0113"
	CodeSecretName     = "W0114"
	CodeManyCalls      = "W0115"
	CodeUnresolved     = "W0201"
	CodeRedeclared     = "W0202"
	CodeBuiltinName    = "W0203"
	CodeUnknownModule  = "W0204"
	CodeImportCycle    = "W0205"
	CodeReservedModule = "W0206"
	CodeMisplaced      = "W0207"
	CodeAssignment     = "W0208"
	CodeExportIgnored  = "W0209"
	CodeNoMember       = "W0210"

	CodeParamsLiteral = "W0301"
	CodeParamSchema   = "W0302"
	CodeParamDefault  = "W0303"
	CodeUnknownParam  = "W0304"
	CodeParamsRead    = "W0305"

	CodeUnusedResult   = "W0401"
	CodeUnusedVariable = "W0402"
	CodeUnusedImport   = "W0403"
	CodeUnusedParam    = "W0404"
	CodeMissingKey     = "W0405"
	CodeNeverEqual     = "W0406"
	CodeAlwaysTrue     = "W0407"
	CodeHiddenImport   = "W0408"
	CodeUnreachable    = "W0409"
	CodeLateVariable   = "W0410"
	CodeSameEachRound  = "W0411"

	CodeHidden    = "W0413"
	CodeDisguised = "W0414"

	CodeUnordered = "W0415"
	CodeNoEffect  = "W0416"

	CodeInterpolation = "W0417"

	CodeTestOperation = "W0501"
	CodeTestMember    = "W0502"
	CodeTestShape     = "W0503"
	CodeTestOption    = "W0504"
)

// Lookup returns the row of a code in Codes.
func Lookup(code string) (Info, bool) {
	i := slices.IndexFunc(Codes, func(c Info) bool { return c.Code == code })
	if i < 0 {
		return Info{}, false
	}
	return Codes[i], true
}

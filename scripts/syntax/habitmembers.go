package syntax

import (
	"strings"

	"github.com/d5/tengo/v2/token"
)

// The types of values whose members other languages have.
const (
	TypeText   = "text"
	TypeList   = "list"
	TypeNumber = "number"
)

// listMembers maps members of lists in other languages to hints. The keys are in lower case without underscores. VALUE
// stands for the list, and ARGS for the arguments.
var listMembers = map[string]string{
	"push": "write VALUE = append(VALUE, ARGS)", "append": "write VALUE = append(VALUE, ARGS)",
	"add": "write VALUE = append(VALUE, ARGS)", "pushback": "write VALUE = append(VALUE, ARGS)",
	"len": "write len(VALUE)", "length": "write len(VALUE)", "size": "write len(VALUE)", "count": "write len(VALUE)",
	"first": "write VALUE[0]", "last": "write VALUE[len(VALUE)-1]",
	"pop":   "write VALUE[len(VALUE)-1] for the last element, and VALUE[:len(VALUE)-1] for the others",
	"slice": "write VALUE[1:3]", "join": "write text.join(VALUE, ARGS), with text := import(\"text\") above",
	"concat": "lists are joined with +: VALUE + ARGS", "extend": "lists are joined with +: VALUE + ARGS",
	"map": insteadOfEach, "filter": insteadOfEach, "foreach": insteadOfEach, "each": insteadOfEach, "find": insteadOfEach,
	"some": insteadOfEach, "every": insteadOfEach, "includes": insteadOfEach, "contains": insteadOfEach,
	"indexof": insteadOfEach,
}

// textMembers is listMembers for texts.
var textMembers = map[string]string{
	"len": "write len(VALUE)", "length": "write len(VALUE)", "size": "write len(VALUE)",
	"upper": ofText("to_upper(VALUE)"), "toupper": ofText("to_upper(VALUE)"), "touppercase": ofText("to_upper(VALUE)"),
	"lower": ofText("to_lower(VALUE)"), "tolower": ofText("to_lower(VALUE)"), "tolowercase": ofText("to_lower(VALUE)"),
	"trim": ofText("trim_space(VALUE)"), "strip": ofText("trim_space(VALUE)"), "trimspace": ofText("trim_space(VALUE)"),
	"split": ofText("split(VALUE, ARGS)"), "replace": ofText("replace(VALUE, ARGS, -1)"),
	"replaceall": ofText("replace(VALUE, ARGS, -1)"), "contains": ofText("contains(VALUE, ARGS)"),
	"includes": ofText("contains(VALUE, ARGS)"), "startswith": ofText("has_prefix(VALUE, ARGS)"),
	"hasprefix": ofText("has_prefix(VALUE, ARGS)"), "endswith": ofText("has_suffix(VALUE, ARGS)"),
	"hassuffix": ofText("has_suffix(VALUE, ARGS)"), "index": ofText("index(VALUE, ARGS)"),
	"indexof": ofText("index(VALUE, ARGS)"), "find": ofText("index(VALUE, ARGS)"), "repeat": ofText("repeat(VALUE, ARGS)"),
	"join": ofText("join(ARGS, VALUE)"), "substr": "write VALUE[0:3]", "substring": "write VALUE[0:3]",
	"slice": "write VALUE[0:3]", "format": "write format(VALUE, ARGS)", "toint": "write int(VALUE)",
	"push": "texts are joined with +: VALUE + ARGS", "append": "texts are joined with +: VALUE + ARGS",
	"concat": "texts are joined with +: VALUE + ARGS",
}

// numberMembers is listMembers for numbers.
var numberMembers = map[string]string{
	"tostring": "write string(VALUE)", "string": "write string(VALUE)", "str": "write string(VALUE)",
	"tofixed": "write format(\"%.2f\", VALUE)",
}

const insteadOfEach = "write a loop: for x in VALUE { … }"

func ofText(call string) string {
	return "write text." + call + ", with text := import(\"text\") above"
}

// MemberHelp returns the hint for a member of a value of a type. value and args are the source of the value and of the
// arguments of the call.
func MemberHelp(kind, value, member, args string) string {
	table, other := listMembers, "a list has elements only: VALUE[0], len(VALUE)"
	switch kind {
	case TypeText:
		table, other = textMembers, "a text has no members: the module text has the functions, such as text.trim_space(VALUE)"
	case TypeNumber:
		table, other = numberMembers, "a number has no members"
	}
	help := table[strings.ReplaceAll(strings.ToLower(member), "_", "")]
	if help == "" {
		help = other
	}
	return strings.NewReplacer("VALUE", value, "ARGS", args).Replace(help)
}

// OperatorHelp returns the hint for an operator that texts lack, "" for other operators. left and right are the source of
// the operands.
func OperatorHelp(op token.Token, left, right string) string {
	switch op {
	case token.Rem:
		return "write format(" + left + ", " + right + ")"
	case token.Mul:
		return "write text.repeat(" + left + ", " + right + "), with text := import(\"text\") above"
	}
	return ""
}

package catalog

import (
	"fmt"
	"slices"
	"strings"

	"writ"
	"writ/internal/clip"
	"writ/internal/meant"
)

// Reason is the kind of a problem.
type Reason string

// The kinds of problems.
const (
	UnknownField Reason = "unknown_field" // the schema has no field of this name
	MissingField Reason = "missing_field" // a required field is missing
	WrongType    Reason = "wrong_type"
	// WrongValue is a value of the right type that is out of bounds, not in the enum, or of the wrong form or kind.
	WrongValue Reason = "wrong_value"
	// SecretMisplaced is a secret in a field that must not be secret.
	SecretMisplaced Reason = "secret_misplaced"
)

// Path leads to a value inside a spec: strings are keys, ints are indexes.
type Path []any

// String formats the path: rules[0].ports[2].
func (p Path) String() string {
	var b strings.Builder
	for i, step := range p {
		switch step := step.(type) {
		case int:
			fmt.Fprintf(&b, "[%d]", step)
		default:
			if i > 0 {
				b.WriteByte('.')
			}
			fmt.Fprint(&b, step)
		}
	}
	return b.String()
}

// Problem is one violation of a schema.
type Problem struct {
	Path       Path // path of the field, even if it is missing or unknown
	Reason     Reason
	Message    string // without the suggestion: `no field "memory"`
	Suggestion string // a similar valid name, "" if unknown
	Hint       string // how a script reaches the purpose of an unknown field, "" if unknown
}

// String returns message and suggestion, or message and hint.
func (p Problem) String() string {
	switch {
	case p.Suggestion != "":
		return fmt.Sprintf("%s; did you mean %q?", p.Message, p.Suggestion)
	case p.Hint != "":
		return p.Message + "; " + p.Hint
	}
	return p.Message
}

// kind returns the kind of the handle v, "" if unknown; ok is false if v is not a handle.
func (is IsHandle) kind(v any) (kind writ.ResourceKind, ok bool) {
	if is == nil {
		return "", false
	}
	return is(v)
}

// units maps suffixes of number fields to their units, with an example.
var units = []struct{ suffix, name, example string }{
	{"_kib", "KiB", "64"}, {"_mib", "MiB", "2048"}, {"_gib", "GiB", "10"}, {"_seconds", "seconds", "30"},
}

// exactly describes the values of a field with a unit or an example. It is empty if the type is a sufficient
// description.
func exactly(f *Field) string {
	if f.Type == String && f.Form != "" && f.Enum == nil {
		return f.Form
	}
	for _, u := range units {
		if f.Type == Int && strings.HasSuffix(f.Name, u.suffix) {
			return fmt.Sprintf("a whole number of %s such as %s", u.name, u.example)
		}
	}
	return ""
}

// quoted formats a string or a number, and describes the type of any other value.
func (is IsHandle) quoted(v any) string {
	switch v := v.(type) {
	case string:
		return fmt.Sprintf("%q", short(v))
	case int64, float64:
		return fmt.Sprint(v)
	default:
		return is.described(v)
	}
}

// wanted describes the type of a field.
func wanted(f *Field) string {
	switch f.Type {
	case Int:
		return "an int"
	case Object:
		return "a map such as " + sampleOf(f.Fields)
	case Handle:
		if f.Registry {
			return "a reference to an image at a registry, a handle to " + kinds(f) + " or the name of one"
		}
		if f.ByName {
			return "a handle to " + kinds(f) + " or the name of one"
		}
		return "a handle to " + kinds(f)
	default:
		return "a " + string(f.Type)
	}
}

// sampleOf returns the text of a map with the required fields, or with the first one if none is required.
func sampleOf(fields Schema) string {
	var names []string
	for i := range fields {
		if fields[i].Required {
			names = append(names, fields[i].Name+": …")
		}
	}
	if len(names) == 0 && len(fields) > 0 {
		names = []string{fields[0].Name + ": …"}
	}
	return "{" + strings.Join(names, ", ") + "}"
}

func kinds(f *Field) string {
	var all []string
	for _, kind := range f.Kinds {
		article := "a "
		if strings.ContainsRune("aeiou", rune(kind[0])) {
			article = "an "
		}
		all = append(all, article+string(kind))
	}
	return strings.Join(all, " or ")
}

// described describes the type of a value.
func (is IsHandle) described(v any) string {
	if kind, ok := is.kind(v); ok {
		if kind == "" {
			return "a handle"
		}
		return "a handle to a " + string(kind) + "; read one of its fields"
	}
	switch v.(type) {
	case nil:
		return "undefined"
	case Secret, Composed:
		return "a secret"
	case string:
		return "a string"
	case bool:
		return "a bool"
	case int64:
		return "an int"
	case float64:
		return "a float"
	case []any:
		return "a list"
	case map[string]any:
		return "a map"
	default:
		return fmt.Sprintf("a %T", v)
	}
}

// short shortens a text for a message.
func short(text string) string { return clip.Text(text, 60) }

// synonyms maps names of arguments, results and operations in Compose, Nomad, Kubernetes and Terraform to names of this
// catalogue. The keys are in lower case without separators. suggestion returns the first of these names that exists.
var synonyms = map[string][]string{
	"ports": {"publish", "published"}, "port": {"publish"}, "expose": {"publish"}, "hostport": {"port"},
	"containerport": {"to"}, "target": {"to", "path"}, "targetport": {"to"}, "source": {"volume", "url"},
	"mountpath": {"path"},
	"img":       {"image"}, "entrypoint": {"command"}, "cmd": {"command"}, "args": {"command"}, "test": {"command"},
	"environment": {"env"}, "vars": {"env"}, "mem": {"memory_mib"}, "memlimit": {"memory_mib"}, "ram": {"memory_mib"},
	"vcpu": {"cpus"}, "vcpus": {"cpus"}, "cores": {"cpus"}, "mounts": {"volumes"}, "binds": {"volumes"},
	"volumemounts": {"volumes"}, "healthcheck": {"health"}, "checks": {"health"}, "livenessprobe": {"health"},
	"readinessprobe": {"health"}, "startperiod": {"start_seconds"}, "restartpolicy": {"restart"},
	"stopgraceperiod": {"grace_seconds"}, "killtimeout": {"grace_seconds"}, "stoptimeout": {"grace_seconds"},
	"cwd": {"workdir"}, "workingdir": {"workdir"}, "ro": {"read_only"}, "networkmode": {"networks"},
	"configs": {"files"}, "templates": {"files"}, "content": {"text"}, "contents": {"text"}, "uid": {"owner", "user"},
	"checksum": {"sha256"}, "digest": {"sha256"}, "userdata": {"cloud_init"}, "auth": {"login"},
	"username": {"user"}, "subnet": {"ipv4"}, "cidr": {"ipv4"}, "nic": {"networks"}, "nics": {"networks"},
	"ip": {"address", "ipv4"}, "ipaddress": {"address", "ipv4"}, "exitcode": {"last_exit_code", "exit_code"},
	"id":     {"uid"},
	"remove": {"delete"}, "rm": {"delete"}, "destroy": {"delete"}, "inspect": {"get"}, "describe": {"get"},
	"add": {"create"}, "make": {"create"}, "pull": {"fetch"}, "download": {"fetch"},
}

// MemberHelp returns the help for an unknown member of a module or of a result, "it": the name that it may mean,
// otherwise the list of members.
func MemberHelp(unknown string, members []string) string {
	if name := suggestion(unknown, members); name != "" {
		return fmt.Sprintf("did you mean %q?", name)
	}
	return meant.Members("it", members)
}

// handleOrders is the hint for an argument of other tools that orders calls.
const handleOrders = "a call waits for the handles in its arguments: pass the handle, or read one of its fields before"

// hints maps names of arguments of other tools that have another form in scripts to hints. The keys are as in synonyms.
var hints = map[string]string{
	"dependson": handleOrders, "waitfor": handleOrders, "requires": handleOrders,
}

// plainName returns a name in the form of the keys of synonyms.
func plainName(name string) string {
	return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(name))
}

// suggestion returns the name of a schema that an unknown name may mean, or "".
func suggestion(unknown string, names []string) string {
	for _, name := range synonyms[plainName(unknown)] {
		if slices.Contains(names, name) {
			return name
		}
	}
	return meant.Closest(unknown, names)
}

package catalog

import (
	"strings"
	"testing"
)

func TestNamesOfOtherToolsAreSuggested(t *testing.T) {
	for _, tt := range []struct{ operation, field, want string }{
		{"container.create", "ports", "publish"}, {"container.create", "img", "image"}, {"container.create", "environment", "env"},
		{"container.create", "restart_policy", "restart"}, {"container.create", "livenessProbe", "health"},
		{"container.create", "stop-timeout", "grace_seconds"}, {"container.create", "comand", "command"},
		{"container.create", "uid", "user"}, {"volume.create", "size", "size_gib"}, {"machine.create", "userdata", "cloud_init"},
		{"network.create", "subnet", "ipv4"}, {"volume.create", "ports", ""},
	} {
		o, _ := Lookup(tt.operation)
		if got := suggestion(tt.field, o.Args.Names()); got != tt.want {
			t.Errorf("%s: %s suggests %q, want %q", tt.operation, tt.field, got, tt.want)
		}
	}
}

func TestNamesOfOtherToolsAreSuggestedForResults(t *testing.T) {
	o, _ := Lookup("container.create")
	for unknown, want := range map[string]string{
		"ip": `did you mean "address"?`, "ports": `did you mean "published"?`, "adress": `did you mean "address"?`,
		"id": `did you mean "uid"?`, "colour": "it has name, ",
	} {
		if got := MemberHelp(unknown, o.Result.Names()); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", unknown, got, want)
		}
	}
	if got := MemberHelp("rm", []string{"create", "delete"}); got != `did you mean "delete"?` {
		t.Errorf("rm: %q", got)
	}
}

// Each suggested name is a field or an action of an operation, and no key has a form that is never looked up.
func TestSynonymsAreFields(t *testing.T) {
	fields := map[string]bool{}
	var collect func(Schema)
	collect = func(s Schema) {
		for _, f := range s {
			fields[f.Name] = true
			collect(f.Fields)
			if f.Elem != nil {
				collect(Schema{*f.Elem})
			}
		}
	}
	for _, o := range Operations() {
		collect(o.Args)
		collect(o.Result)
		fields[o.Verb] = true
	}
	for key, names := range synonyms {
		for _, name := range names {
			if !fields[name] {
				t.Errorf("%s: no operation has the field %s", key, name)
			}
		}
		for _, r := range key {
			if r < 'a' || r > 'z' {
				t.Errorf("%q is never looked up", key)
			}
		}
	}
}

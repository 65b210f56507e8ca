package client

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/identity"
	"writ/identity/header"
	"writ/identity/target"
	"writ/scripts/deletion"
)

func TestDestructiveTargetsComeFromThePlanTheScriptOrThePerson(t *testing.T) {
	const head = "volume := import(\"volume\")\nrun := import(\"run\")\nparams := {name: {type: \"string\", default: \"web\"}, n: {type: \"int\", default: 2}}\n"
	counted := "for i := 0; i < run.params.n; i++ { volume.delete(run.params.name + \"-\" + i) }"
	behind := "if volume.create(\"a\", {size_gib: 1}).size_gib > 0 { volume.delete(\"old-\" + run.params.n); volume.delete(\"old\") }"
	hidden := "volume.delete(volume.create(\"a\", {size_gib: 1}).uid)"
	for name, tt := range map[string]struct {
		script string
		said   Destruction
		want   []string
		code   writ.Code
	}{
		"nothing":                  {script: `volume.create("a", {size_gib: 1})`},
		"nothing, and said":        {script: `volume.create("a", {size_gib: 1})`, said: Destruction{Said: true}},
		"not said":                 {script: counted, code: writ.CodeDestructiveDenied},
		"by the plan":              {script: counted, said: Destruction{Said: true}, want: []string{"volume/web-0", "volume/web-1"}},
		"not reached":              {script: `if run.params.n > 2 { volume.delete("web-0") }`},
		"not reached, and said":    {script: `if run.params.n > 2 { volume.delete("web-0") }`, said: Destruction{Said: true}},
		"by the text":              {script: behind, said: Destruction{Said: true}, want: []string{"volume/old", "volume/old-2"}},
		"by a parameter":           {script: "v := volume.create(run.params.name + \"-data\" + run.params.n, {size_gib: 1}); if v.size_gib > 0 { volume.delete(v) }", said: Destruction{Said: true}, want: []string{"volume/web-data2"}},
		"by the text, not said":    {script: behind, code: writ.CodeDestructiveDenied},
		"by nothing":               {script: hidden, said: Destruction{Said: true}, code: writ.CodeDestructiveDenied},
		"by the person":            {script: hidden, said: Destruction{Said: true, Named: []string{"*"}}, want: []string{"*"}},
		"by the person, with more": {script: counted, said: Destruction{Said: true, Named: []string{"volume/web-*"}}, want: []string{"volume/web-*"}},
		"by the person, not all":   {script: counted, said: Destruction{Said: true, Named: []string{"volume/web-1"}}, code: writ.CodeDestructiveDenied},
	} {
		o := Order{Script: NewScript("a.tengo", []byte(head+tt.script+"\n")), MaxCalls: 100}
		err := o.NameTargets(t.Context(), nil, tt.said)
		if writ.CodeOf(err) != tt.code || cmp.Diff(tt.want, o.Targets) != "" && err == nil {
			t.Errorf("%s: %q, %v; want %q, %q", name, o.Targets, err, tt.want, tt.code)
		}
	}
}

func TestBatchesFitIntoAHeader(t *testing.T) {
	var resources []deletion.Resource
	for i := range 450 {
		resources = append(resources, deletion.Resource{Kind: "volume", Name: fmt.Sprintf("%s-%03d", strings.Repeat("v", 55), i)})
	}
	resources = append(resources, deletion.Resource{Kind: "machine", Name: "web"})
	all := 0
	for i, batch := range Batches(resources, nil) {
		p := &identity.Payload{}
		for _, r := range batch {
			p.Targets = append(p.Targets, target.Of(r.Kind, r.Name))
		}
		all += len(batch)
		if i == 0 && batch[0].Name != "web" {
			t.Error("the user is not deleted first")
		}
		if n := len("destructive: " + strings.Join(p.Targets, " ")); n > header.MaxLine || len(batch) > target.Max {
			t.Errorf("batch %d has %d names and %d bytes", i, len(batch), n)
		}
	}
	if all != len(resources) {
		t.Errorf("%d of %d resources", all, len(resources))
	}
	taken := make([]string, target.Max)
	if first := Batches(resources, taken)[0]; len(first) != 0 {
		t.Errorf("%d resources where no room is left", len(first))
	}
}

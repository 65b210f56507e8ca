package scripts_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"writ/scripts"
	"writ/scripts/check"
)

// Promise: Plans, scripts and manuals: A person sees the objects that a script would destroy before signing it, or
// must name them.
// How: The plan lists its calls, or the signed text contains the names.
// Also: TestScripts/refused.
func TestCheckReportsDestroyedResources(t *testing.T) {
	for name, tt := range map[string]struct {
		script string
		want   []string
		more   bool
	}{
		"nothing":           {`volume.create("a", {size_gib: 1})`, nil, false},
		"a name":            {`volume.delete("web-0")`, []string{"volume/web-0"}, false},
		"a name in parts":   {`volume.delete("web-" + "0")`, []string{"volume/web-0"}, false},
		"a counter":         {`for i := 0; i < 3; i++ { volume.delete("web-" + i) }`, []string{"volume/web-*"}, false},
		"a format":          {`for i := 0; i < 3; i++ { volume.delete(format("web-%d", i)) }`, []string{"volume/web-*"}, false},
		"half a format":     {`volume.delete(format("web-0" + run.params.name))`, []string{"volume/web-0*"}, false},
		"a variable":        {`n := "web-0"; volume.delete(n)`, []string{"volume/web-0"}, false},
		"a handle":          {`v := volume.create("web-0", {size_gib: 1}); volume.restore(v, {snapshot: "a"})`, []string{"volume/web-0"}, false},
		"several":           {`volume.delete("web-0"); herodb.delete("store"); herodb.restore("store", {backup: "b"})`, []string{"herodb/store", "volume/web-0"}, false},
		"a branch":          {`if volume.get("a").size_gib > 3 { volume.delete("web-0") }`, []string{"volume/web-0"}, false},
		"a parameter":       {`volume.delete(run.params.name)`, nil, true},
		"too short":         {`for i := 0; i < 3; i++ { volume.delete("w-" + i) }`, nil, true},
		"another value":     {`n := "web-0"; n = "web-1"; volume.delete(n)`, nil, true},
		"some of them":      {`volume.delete("web-0"); volume.delete(run.params.name)`, []string{"volume/web-0"}, true},
		"a function's":      {`wipe := func(n) { volume.delete(n) }; wipe("web-0")`, nil, true},
		"as many arguments": {`all := ["web-0"]; volume.delete(all...)`, nil, true},
		"an index":          {`volume["delete"]("web-0")`, []string{"volume/web-0"}, false},
	} {
		text := "volume := import(\"volume\")\nherodb := import(\"herodb\")\nrun := import(\"run\")\nparams := {name: {type: \"string\", default: \"x\"}}\n" + tt.script + "\n"
		r := check.Check(scripts.Bundle{Main: scripts.Source{Name: "a.tengo", Text: []byte(text)}})
		if diff := cmp.Diff(tt.want, r.Targets); !r.OK() || diff != "" || r.MoreTargets != tt.more {
			t.Errorf("%s: more %v, want %v; %s %s", name, r.MoreTargets, tt.more, diff, r)
		}
	}
}

// The steps to resolve names are limited, even if names double repeatedly.
func TestNameResolutionIsLimited(t *testing.T) {
	var b strings.Builder
	b.WriteString("volume := import(\"volume\")\na0 := \"\"\n")
	for i := 1; i < 60; i++ {
		fmt.Fprintf(&b, "a%d := a%d + a%d\n", i, i-1, i-1)
	}
	b.WriteString("volume.delete(a59)\n")
	if r := check.Check(scripts.Bundle{Main: scripts.Source{Name: "a.tengo", Text: []byte(b.String())}}); !r.MoreTargets {
		t.Errorf("%+v", r.Targets)
	}
}

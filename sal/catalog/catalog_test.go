package catalog

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"writ"
)

var update = flag.Bool("update", false, "write the golden file anew")

// The whole catalogue as one text: a change of an operation shows here its effect on scripts, plans and nodes.
func TestCatalogueIsAsReviewed(t *testing.T) {
	var b strings.Builder
	shown := map[string]string{}
	for _, o := range Operations() {
		describe(&b, o, shown)
	}
	golden := filepath.Join("testdata", "catalogue.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("the catalogue has changed (go test -update writes it anew, then read the difference):\n%s", diff)
	}
}

// describe writes one operation. A result shared by several operations is written once, for the first one.
func describe(b *strings.Builder, o *Operation, shown map[string]string) {
	words := []string{string(o.Effect), string(o.Repeat), o.Timeout.String()}
	if o.Named() {
		words = slices.Insert(words, 0, string(o.Kind))
	}
	fmt.Fprintf(b, "%s (%s)\n  %s\n  %s data", o.Name(), strings.Join(words, ", "), o.Help, strings.ToUpper(string(o.Data)))
	if o.Risk != "" {
		fmt.Fprintf(b, ": %s", o.Risk)
	}
	b.WriteByte('\n')
	describeFields(b, "  takes ", o.Args, "    ")
	var gives strings.Builder
	describeFields(&gives, "  gives ", o.Result, "    ")
	if before, ok := shown[gives.String()]; ok && len(o.Result) > 0 {
		fmt.Fprintf(b, "  gives the same as %s\n\n", before)
		return
	}
	shown[gives.String()] = o.Name()
	fmt.Fprintf(b, "%s\n", gives.String())
}

func describeFields(b *strings.Builder, title string, s Schema, indent string) {
	if title != "" && len(s) == 0 {
		fmt.Fprintf(b, "%snothing\n", title)
		return
	}
	if title != "" {
		fmt.Fprintln(b, strings.TrimRight(title, " "))
	}
	for _, f := range s {
		fmt.Fprintf(b, "%s%s: %s. %s\n", indent, f.Name, strings.Join(traits(f), ", "), f.Help)
		switch {
		case f.Type == Object:
			describeFields(b, "", f.Fields, indent+"    ")
		case f.Elem != nil && f.Elem.Type == Object:
			describeFields(b, "", f.Elem.Fields, indent+"    ")
		}
	}
}

func traits(f Field) []string {
	words := []string{string(f.Type)}
	if f.Elem != nil {
		words[0] += " of " + strings.Join(traits(*f.Elem), " ")
	}
	if f.Key != nil && f.Key.Form != "" {
		words = append(words, "keys: "+f.Key.Form)
	}
	for _, trait := range []struct {
		word string
		has  bool
	}{{"required", f.Required}, {"mutable", f.Mutable}, {"or by name", f.ByName}, {"or at a registry", f.Registry}, {"on any node", f.Elsewhere}, {"or a secret", f.Secret && !f.Hidden}, {"a secret", f.Hidden}} {
		if trait.has {
			words = append(words, trait.word)
		}
	}
	if f.Default != nil {
		words = append(words, fmt.Sprintf("default %v", f.Default))
	}
	if f.Min != nil {
		words = append(words, "min "+limitText(&f, *f.Min))
	}
	if f.Max != nil {
		words = append(words, "max "+limitText(&f, *f.Max))
	}
	if f.Form != "" {
		words = append(words, f.Form)
	}
	if f.Enum != nil {
		words = append(words, strings.Join(f.Enum, "|"))
	}
	for _, kind := range f.Kinds {
		words = append(words, "to "+string(kind))
	}
	if f.Uses != "" {
		words = append(words, "uses "+f.Uses)
	}
	if f.Engine != "" {
		words = append(words, "the engine's "+f.Engine)
	}
	return words
}

func TestEveryOperationKeepsTheRules(t *testing.T) {
	names := regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	seen := map[string]bool{}
	for _, o := range Operations() {
		if seen[o.Name()] {
			t.Errorf("%s is declared twice", o.Name())
		}
		seen[o.Name()] = true
		if !names.MatchString(o.Module) || !names.MatchString(o.Verb) {
			t.Errorf("%s cannot be written in a script", o.Name())
		}
		if !strings.HasSuffix(o.Help, ".") || o.Timeout <= 0 {
			t.Errorf("%s lacks a sentence of help or a timeout", o.Name())
		}
		if o.Effect == Make && o.Repeat != Safe {
			t.Errorf("%s makes and is not safe to repeat", o.Name())
		}
		if found, ok := Lookup(o.Name()); !ok || found != o {
			t.Errorf("%s is not found by its name", o.Name())
		}
		checkFields(t, o.Name(), o.Args)
		checkFields(t, o.Name(), o.Result)
		if o.Named() {
			for _, name := range []string{"name", "uid", "node", "simulated"} {
				if _, ok := o.Result.Field(name); !ok {
					t.Errorf("%s gives no %q", o.Name(), name)
				}
			}
		}
	}
	for _, kind := range []writ.ResourceKind{writ.KindImage, writ.KindVolume, writ.KindNetwork, writ.KindMachine, writ.KindContainer, writ.KindHeroDB} {
		effects := map[Effect]int{}
		for _, o := range Of(string(kind)) {
			effects[o.Effect]++
		}
		if effects[Make] == 0 || effects[Remove] != 1 || effects[Find] != 1 {
			t.Errorf("%s cannot be made, found and removed: %v", kind, effects)
		}
	}
}

// checkFields checks the assumptions of Check, Decode and the manual about a schema.
func checkFields(t *testing.T, in string, s Schema) {
	t.Helper()
	seen := map[string]bool{}
	for _, f := range s {
		at := in + "." + f.Name
		if seen[f.Name] {
			t.Errorf("%s is declared twice", at)
		}
		seen[f.Name] = true
		inner := f
		if f.Elem != nil {
			inner = *f.Elem
		}
		if inner.Type == Handle && len(inner.Kinds) == 0 {
			t.Errorf("%s is a handle to nothing", at)
		}
		if inner.ByName && len(inner.Kinds) != 1 {
			t.Errorf("%s: the kind of a name must be clear", at)
		}
		if f.Required && f.Default != nil {
			t.Errorf("%s is required and has a default", at)
		}
		if f.Default != nil {
			if problems := (Schema{f}).Check(map[string]any{f.Name: f.Default}, nil); problems != nil {
				t.Errorf("the default of %s does not fit: %v", at, problems)
			}
		}
		if f.Uses != "" && (f.Type != Int && f.Type != Decimal || !slices.Contains([]string{"cpus", "memory_mib", "disk_gib"}, f.Uses)) {
			t.Errorf("%s uses what a node does not have", at)
		}
		if is := map[string]bool{"name": f.Type == List, "version": f.Type == String}; f.Engine != "" && !is[f.Engine] {
			t.Errorf("%s says of an engine what it does not have", at)
		}
		checkFields(t, at, inner.Fields)
	}
}

func TestModulesAndTheirOperationsAreComplete(t *testing.T) {
	want := []string{"image", "volume", "network", "machine", "container", "herodb", "node", "run"}
	if diff := cmp.Diff(want, Modules()); diff != "" {
		t.Error(diff)
	}
	var all []*Operation
	for _, module := range Modules() {
		all = append(all, Of(module)...)
	}
	if len(all) != len(Operations()) {
		t.Errorf("the modules have %d operations, the catalogue %d", len(all), len(Operations()))
	}
	if Of("mashine") != nil {
		t.Error("an unknown module has operations")
	}
}

func TestNeedsAddsUpArguments(t *testing.T) {
	for _, tt := range []struct {
		operation string
		args      map[string]any
		want      writ.Capacity
	}{
		{"machine.create", map[string]any{"cpus": int64(2), "memory_mib": int64(2048), "disks": []any{map[string]any{"ref": int64(1)}}}, writ.Capacity{CPUs: 2, MemoryMiB: 2048}},
		{"machine.resize", map[string]any{"cpus": int64(4)}, writ.Capacity{CPUs: 4}},
		{"volume.create", map[string]any{"size_gib": int64(10)}, writ.Capacity{DiskGiB: 10}},
		{"container.create", map[string]any{"image": "web"}, writ.Capacity{CPUs: 1, MemoryMiB: 512}},
	} {
		o, _ := Lookup(tt.operation)
		if got := o.Needs(tt.args); got != tt.want {
			t.Errorf("%s needs %+v, want %+v", tt.operation, got, tt.want)
		}
	}
	if o, _ := Lookup("machine.start"); o.Needs != nil {
		t.Error("machine.start says that it needs something")
	}
}

func TestSchemaRefusesWrongTags(t *testing.T) {
	for name, declare := range map[string]func(){
		"unknown option": func() {
			schemaOf[struct {
				A string `writ:"a,requird" help:"h"`
			}]()
		},
		"unknown form": func() {
			schemaOf[struct {
				A string `writ:"a,form=shape" help:"h"`
			}]()
		},
		"no help": func() {
			schemaOf[struct {
				A string `writ:"a"`
			}]()
		},
		"a float": func() {
			schemaOf[struct {
				A float64 `writ:"a" help:"h"`
			}]()
		},
		"a bad bound": func() {
			schemaOf[struct {
				A int64 `writ:"a,min=many" help:"h"`
			}]()
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("it was taken")
				}
			}()
			declare()
		})
	}
}

func TestSchemaFollowsEmbeddedStructs(t *testing.T) {
	want := []string{"name", "uid", "node", "simulated", "path", "sha256", "format", "size_mib"}
	if diff := cmp.Diff(want, schemaOf[Image]().Names()); diff != "" {
		t.Error(diff)
	}
	image := Image{Identity: Identity{Name: "debian-12"}, SizeMiB: 7}
	if v := reflect.ValueOf(image).FieldByIndex(schemaOf[Image]()[0].index); v.String() != "debian-12" {
		t.Errorf("the first field is %v", v)
	}
}

// A runner executes jobs on one resource one after another. It relies on that to determine whether a job that must not
// be repeated was begun.
func TestNonRepeatableOperationsNameAResource(t *testing.T) {
	for _, o := range Operations() {
		if o.Repeat != Safe && !o.Named() {
			t.Errorf("%s must not be repeated and names no resource", o.Name())
		}
	}
}

package sweep

import (
	"go/ast"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"writ/internal/test/gosource"
)

// driverFolders lists the source folders with the steps of a module. All modules also have the steps in sal.
var driverFolders = map[string][]string{
	"image": {"sal/image"}, "volume": {"sal/volume", "sal/btrfs", "sal/directory"}, "network": {"sal/netdev", "sal/netdev/firewall"}, "mycelium": {"sal/mycelium"},
	"machine": {"sal/cloudhypervisor"}, "container": {"sal/containerd", "sal/containerd/imagestore", "sal/containerd/stage"}, "herodb": {"sal/herodb"},
}

// stepsDirective lists the names of the steps of a function that takes them from a variable, separated by semicolons.
const stepsDirective = "failpoint:steps"

// onlyAfterAnEnd lists steps that occur only after an interruption. The long form reaches them.
var onlyAfterAnEnd = map[string]bool{
	"sal/netdev: delete the unfinished link …":               true,
	"sal/containerd: end the programs of a runner that died": true,
}

// notTaken lists steps that no act reaches, with the reason.
var notTaken = map[string]string{
	"sal/cloudhypervisor: terminate the process":             "it needs a process that does not end when it is asked to",
	"sal/cloudhypervisor: kill the process":                  "it needs a process that does not end when it is asked to",
	"sal/cloudhypervisor: trim a log":                        "it needs megabytes of a log",
	"sal/cloudhypervisor: put the process into its group":    "it needs a process that an earlier version has started",
	"sal/cloudhypervisor: end the remaining processes":       "it needs a host that gives processes no groups",
	"sal/herodb: end the remaining processes":                "it needs a host that gives processes no groups",
	"sal/herodb: put the process into its group":             "it needs a process that an earlier version has started",
	"sal/mycelium: cut the log off":                          "it needs megabytes of a log",
	"sal/btrfs: rescan the quotas":                           "it needs a pool whose quota counts are inconsistent",
	"sal/btrfs: bound the project":                           "it needs a runner that is started with another share for each project",
	"sal/btrfs: remove a nested subvolume":                   "it needs a subvolume in a volume",
	"sal/herodb: cut off the log":                            "it needs megabytes of a log",
	"sal/herodb: link the data":                              "no package has the engines that need it",
	"sal/containerd: change the network namespace":           "it needs a restarted host",
	"sal/containerd: change the init program or the devices": "it needs a restarted host; the driver's suite changes both",
	"sal/containerd: resume the process":                     "it needs a container paused by hand",
	"sal/containerd: signal the program":                     "it needs a program that handles SIGHUP; the driver's suite stops there",
	"sal/containerd: write the secrets for logs":             "it needs a secret",
	"sal/netdev: remove an address from …":                   "it needs a link with an address set by hand",
	"sal/netdev: remove a route":                             "no operation changes the order of an owner's networks",
	"sal/netdev: remove a rule for routes":                   "no operation changes the order of an owner's networks",
	"sal/herodb: remove the dump":                            "it needs a database without persistence whose process died",
	"sal/directory: link …":                                  "volumes of the acts have a disk in them, and no links",
	"sal/volume: link …":                                     "volumes of the acts have a disk in them, and no links",
	"sal/image: note the tag":                                "it needs a server with a certificate that this host trusts",
	"sal/volume: make room for archives":                     "it needs a second node; the driver's suite stops at each step",
	"sal/volume: begin the archive":                          "it needs a second node; the driver's suite stops at each step",
	"sal/volume: sync the archive":                           "it needs a second node; the driver's suite stops at each step",
}

// everyStep compares the steps in the drivers' source with the steps taken.
func everyStep(t *testing.T, taken, ended map[string]bool, long bool) {
	t.Helper()
	all := stepsOf(t)
	reached := func(steps map[string]bool, folder string, name *regexp.Regexp) bool {
		for step := range steps {
			module, rest, _ := strings.Cut(strings.TrimPrefix(step, "step/"), "/")
			if (folder == "sal" || slices.Contains(driverFolders[module], folder)) && name.MatchString(rest) {
				return true
			}
		}
		return false
	}
	known := map[string]bool{}
	for step, name := range all {
		folder, _, _ := strings.Cut(step, ": ")
		known[step] = true
		switch {
		case notTaken[step] != "":
			if reached(taken, folder, name) || reached(ended, folder, name) {
				t.Errorf("%s was reached, although it is listed as unreachable", step)
			}
		case onlyAfterAnEnd[step]:
			if long && !reached(ended, folder, name) {
				t.Errorf("no end was before %s", step)
			}
		case !reached(taken, folder, name) && !reached(ended, folder, name):
			t.Errorf("no act reaches %s: add an act or a reason", step)
		case long && !reached(ended, folder, name):
			t.Errorf("no end was before %s", step)
		}
	}
	for _, list := range [][]string{slices.Collect(maps.Keys(notTaken)), slices.Collect(maps.Keys(onlyAfterAnEnd))} {
		for _, step := range list {
			if !known[step] {
				t.Errorf("%s no longer exists", step)
			}
		}
	}
}

// stepsOf finds the steps in the drivers' source, as "folder: name", where "…" represents a variable part. Each value
// matches the actual names of a step.
func stepsOf(t *testing.T) map[string]*regexp.Regexp {
	t.Helper()
	all := map[string]*regexp.Regexp{}
	add := func(folder, name string) {
		parts := strings.Split(name, "…")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		all[folder+": "+name] = regexp.MustCompile("^" + strings.Join(parts, ".*") + "$")
	}
	root, err := gosource.Module()
	if err != nil {
		t.Fatal(err)
	}
	files, err := gosource.Load(root, "sal")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if file.Folder == "sal/saltest" || file.Folder == "sal/simulated" {
			continue
		}
		for _, f := range file.Functions() {
			for _, name := range namesOfSteps(t, f) {
				add(file.Folder, name)
			}
		}
	}
	return all
}

// namesOfSteps returns the names of the steps that a function takes: from its calls, or from its directive.
func namesOfSteps(t *testing.T, f gosource.Function) (names []string) {
	t.Helper()
	if f.Name == "step" || strings.HasSuffix(f.Name, ".step") {
		return nil
	}
	listed, hasList := f.Directive(stepsDirective)
	unknown := false
	ast.Inspect(f.Decl.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) != 1 || !isStep(call.Fun) {
			return true
		}
		if name := nameOf(call.Args[0]); name != "…" {
			names = append(names, name)
		} else {
			unknown = true
		}
		return true
	})
	switch {
	case unknown && !hasList:
		t.Errorf("%s: the name of a step is a variable: list its values behind //%s in the comment of %s", f.File.At(f.Decl), stepsDirective, f)
	case !unknown && hasList:
		t.Errorf("%s: remove //%s: %s names all its steps", f.File.At(f.Decl), stepsDirective, f)
	}
	for name := range strings.SplitSeq(listed, ";") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names
}

func isStep(f ast.Expr) bool {
	switch f := f.(type) {
	case *ast.Ident:
		return f.Name == "step" || f.Name == "Step"
	case *ast.SelectorExpr:
		return f.Sel.Name == "step" || f.Sel.Name == "Step"
	default:
		return false
	}
}

// nameOf returns the constant parts of an expression.
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil {
			return text
		}
	case *ast.BinaryExpr:
		return strings.ReplaceAll(nameOf(e.X)+nameOf(e.Y), "……", "…")
	}
	return "…"
}

// read adds the steps in a file.
func read(t *testing.T, steps map[string]bool, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if i := strings.LastIndexByte(line, ' '); i >= 0 { // the number of earlier steps of this kind follows
			steps[line[:i]] = true
		}
	}
}

package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/oasdiff/yaml"
	"github.com/rogpeppe/go-internal/testscript"
)

// asInTheManual implements the command `manual NAME ARGUMENTS…`. It runs an example of docs/manual/ci.md exactly as
// printed:
//
//	manual release                        how a person makes a release; it sets RELEASE and SHA256
//	manual setup                          what a person types before the first job
//	manual github pull_request|push       the jobs of the workflow for such an event
//	manual gitlab JOB                     a job of the pipeline
//	manual shell                          the script for any other runner
//
// Settings of the CI system are variables of the script, for example WRIT_RELEASE.
func asInTheManual(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: manual release|setup|github|gitlab|shell ARGUMENTS…")
	}
	switch args[0] {
	case "release":
		makeRelease(ts, exampleOf(ts, "A release for your jobs"))
	case "setup":
		runSteps(ts, false, nil, exampleOf(ts, "Before the first job"))
	case "github":
		runWorkflow(ts, exampleOf(ts, "GitHub Actions"), args[1])
	case "gitlab":
		var pipeline struct {
			Include []struct {
				Local  string
				Inputs map[string]any
			}
		}
		parseCI(ts, exampleOf(ts, "GitLab"), &pipeline)
		if len(pipeline.Include) != 1 || "../../"+pipeline.Include[0].Local != deployCI+"/gitlab/writ.yml" {
			ts.Fatalf("the example includes %+v", pipeline.Include)
		}
		useComponent(ts, false, args[1], texts(pipeline.Include[0].Inputs))
	case "shell":
		ts.Check(os.WriteFile(ts.MkAbs("deploy.sh"), []byte(exampleOf(ts, "Any other runner")), 0o755))
		ts.Check(ts.Exec("./deploy.sh"))
	}
}

// makeRelease runs the example that makes a release, in a clone of this repository. A directory of the test replaces
// /srv.
func makeRelease(ts *testscript.TestScript, example string) {
	top, err := filepath.Abs("../..")
	ts.Check(err)
	ts.Check(ts.Exec("git", "clone", "--quiet", "--no-local", top, "clone"))
	ts.Check(ts.Chdir("clone"))
	srv := ts.MkAbs("../srv")
	runSteps(ts, false, goCaches(ts), strings.ReplaceAll(example, "/srv", srv))
	digest, _, _ := strings.Cut(ts.ReadFile("stdout"), " ")
	ts.Check(ts.Chdir(".."))
	ts.Setenv("RELEASE", srv+"/releases/writ/v0.1.0")
	ts.Setenv("SHA256", digest)
}

// goCaches returns the variables with the Go caches of the user of the test. HOME is empty in a script, so the default
// caches would be empty as well.
func goCaches(ts *testscript.TestScript) map[string]string {
	env := map[string]string{}
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPROXY", "GOSUMDB"} {
		value, err := exec.Command("go", "env", name).Output()
		ts.Check(err)
		env[name] = strings.TrimSpace(string(value))
	}
	return env
}

// exampleOf returns the first code block below a heading of the page.
func exampleOf(ts *testscript.TestScript, heading string) string {
	page, err := os.ReadFile("../../docs/manual/ci.md")
	ts.Check(err)
	_, text, found := strings.Cut(string(page), "\n## "+heading+"\n")
	_, text, opened := strings.Cut(text, "\n```")
	_, text, begun := strings.Cut(text, "\n") // skip the language
	text, _, closed := strings.Cut(text, "\n```\n")
	if !found || !opened || !begun || !closed {
		ts.Fatalf("the page has no example below %q", heading)
	}
	return text + "\n"
}

func parseCI(ts *testscript.TestScript, text string, into any) {
	_, err := yaml.Unmarshal([]byte(text), into, yaml.DecodeOpts{})
	ts.Check(err)
}

// texts converts inputs to strings, as runners do.
func texts(inputs map[string]any) map[string]string {
	given := map[string]string{}
	for name, value := range inputs {
		given[name] = fmt.Sprint(value)
	}
	return given
}

// workflow is a GitHub workflow.
type workflow struct {
	On   map[string]any
	Env  map[string]string
	Jobs map[string]*struct {
		If      string
		Needs   string
		Outputs map[string]string
		Steps   []struct {
			ID   string
			Uses string
			With map[string]any
		}
	}
}

// runWorkflow runs the jobs of a workflow, each after the job that it needs.
func runWorkflow(ts *testscript.TestScript, text, event string) {
	var w workflow
	parseCI(ts, text, &w)
	if _, starts := w.On[event]; !starts {
		ts.Fatalf("%s starts no job", event)
	}
	values := map[string]string{"github.ref": "refs/heads/main"}
	if event == "pull_request" {
		values["github.ref"] = "refs/pull/7/merge"
	}
	for _, name := range []string{"WRIT_RELEASE", "WRIT_SHA256", "WRIT_CONFIG", "WRIT_PLAN_KEY", "WRIT_KEY"} {
		values["vars."+name], values["secrets."+name] = ts.Getenv("SETTING_"+name), ts.Getenv("SETTING_"+name)
	}
	only := regexp.MustCompile(`^github\.ref == '(.*)'$`)
	for done := ""; len(w.Jobs) > 0; {
		names := slices.DeleteFunc(slices.Sorted(maps.Keys(w.Jobs)), func(name string) bool { return w.Jobs[name].Needs != done })
		if len(names) != 1 {
			ts.Fatalf("jobs after %q: %q", done, names)
		}
		job := w.Jobs[names[0]]
		delete(w.Jobs, names[0])
		done = names[0]
		if when := only.FindStringSubmatch(job.If); job.If != "" && when[1] != values["github.ref"] {
			continue
		}
		env := map[string]string{}
		for name, value := range w.Env {
			env[name] = expand(ts, value, values)
		}
		for _, step := range job.Steps {
			if strings.HasPrefix(step.Uses, "actions/checkout@") {
				continue
			}
			if "../.."+strings.TrimPrefix(step.Uses, ".") != deployCI+"/github" {
				ts.Fatalf("a step uses %q", step.Uses)
			}
			given := texts(step.With)
			for name, value := range given {
				given[name] = expand(ts, value, values)
			}
			for name, value := range useAction(ts, false, given, env) {
				values["steps."+step.ID+".outputs."+name] = value
			}
		}
		for name, value := range job.Outputs {
			values["needs."+done+".outputs."+name] = expand(ts, value, values)
		}
	}
}

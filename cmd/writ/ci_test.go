package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/oasdiff/yaml"
	"github.com/rogpeppe/go-internal/testscript"
)

// deployCI is where the definitions for CI systems are.
const deployCI = "../../deploy/ci"

// ciInput is an input of a job, whose default is used if a script does not give it.
type ciInput struct{ Default string }

// onGitHubRunner is the command `github NAME=VALUE…`: it carries out the steps of the composite action with these inputs, as a runner of GitHub Actions
// does. The files output and summary have what the steps wrote there.
func onGitHubRunner(ts *testscript.TestScript, neg bool, args []string) {
	dir, err := filepath.Abs(filepath.Join(deployCI, "github"))
	ts.Check(err)
	var action struct {
		Inputs map[string]ciInput
		Runs   struct {
			Steps []struct {
				Run string
				Env map[string]string
			}
		}
	}
	readCI(ts, filepath.Join(dir, "action.yml"), 0, &action)
	fill := inputsOf(ts, `\$\{\{ inputs\.([a-z]+) \}\}`, action.Inputs, args)
	for name, value := range map[string]string{
		"GITHUB_ACTIONS": "true", "GITHUB_ACTION_PATH": dir, "GITHUB_OUTPUT": ts.MkAbs("output"), "GITHUB_STEP_SUMMARY": ts.MkAbs("summary"),
	} {
		ts.Setenv(name, value)
		defer ts.Setenv(name, "")
	}
	for _, step := range action.Runs.Steps {
		if strings.Contains(step.Run, "${{") {
			ts.Fatalf("an input is in the text of a command: %s", step.Run)
		}
		for name, value := range step.Env {
			ts.Setenv(name, fill(value))
		}
		runSteps(ts, neg, step.Run)
	}
}

// onGitLabRunner is the command `gitlab JOB NAME=VALUE…`: it carries out a job of the component with these inputs, as a runner of GitLab does.
func onGitLabRunner(ts *testscript.TestScript, neg bool, args []string) {
	path := filepath.Join(deployCI, "gitlab", "writ.yml")
	var head struct {
		Spec struct{ Inputs map[string]ciInput }
	}
	var jobs map[string]struct {
		Variables map[string]string
		Script    []string
	}
	readCI(ts, path, 0, &head)
	readCI(ts, path, 1, &jobs)
	script, err := filepath.Abs(filepath.Join(deployCI, "writ-ci.sh"))
	ts.Check(err)
	fill := inputsOf(ts, `\$\[\[ inputs\.([a-z]+) \]\]`, head.Spec.Inputs, append(args[1:], "script="+script))
	for name, value := range jobs[args[0]].Variables {
		ts.Setenv(name, fill(value))
	}
	text := strings.Join(jobs[args[0]].Script, "\n")
	if text == "" || strings.Contains(text, "$[[") {
		ts.Fatalf("the job %s has no script, or an input is in its text: %s", args[0], text)
	}
	runSteps(ts, neg, text)
}

// runSteps runs commands in a shell that ends with the first that fails.
func runSteps(ts *testscript.TestScript, neg bool, text string) {
	if err := ts.Exec("sh", "-ec", text); (err != nil) != neg {
		ts.Fatalf("it ended with %v\n%s%s", err, ts.ReadFile("stdout"), ts.ReadFile("stderr"))
	}
}

// readCI reads a document of a YAML file.
func readCI(ts *testscript.TestScript, path string, document int, into any) {
	text, err := os.ReadFile(path)
	ts.Check(err)
	_, err = yaml.Unmarshal([]byte(strings.Split(string(text), "\n---\n")[document]), into, yaml.DecodeOpts{})
	ts.Check(err)
}

// inputsOf returns what fills inputs in: what is given, otherwise their defaults.
func inputsOf(ts *testscript.TestScript, pattern string, inputs map[string]ciInput, given []string) func(string) string {
	values := map[string]string{}
	for name, input := range inputs {
		values[name] = input.Default
	}
	for _, g := range given {
		name, value, _ := strings.Cut(g, "=")
		if _, known := inputs[name]; !known {
			ts.Fatalf("there is no input %s", name)
		}
		values[name] = value
	}
	expression := regexp.MustCompile(pattern)
	return func(text string) string {
		return expression.ReplaceAllStringFunc(text, func(e string) string { return values[expression.FindStringSubmatch(e)[1]] })
	}
}

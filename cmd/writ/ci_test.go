package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/oasdiff/yaml"
	"github.com/rogpeppe/go-internal/testscript"
)

// deployCI is the directory of the definitions for CI systems.
const deployCI = "../../deploy/ci"

// ciInput is an input of a job. Its default applies if a script does not set it.
type ciInput struct{ Default any }

// onGitHubRunner implements the command `github NAME=VALUE…`. It runs the composite action with these inputs, as a
// runner of GitHub Actions does. The files output and summary contain the output of the steps.
func onGitHubRunner(ts *testscript.TestScript, neg bool, args []string) {
	given := map[string]string{}
	for _, g := range args {
		name, value, _ := strings.Cut(g, "=")
		given[name] = value
	}
	useAction(ts, neg, given, nil)
}

// useAction runs the steps of the composite action in the environment of a job, and returns its outputs.
func useAction(ts *testscript.TestScript, neg bool, given, of map[string]string) map[string]string {
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
	values := eventOf(ts)
	for name, value := range inputsOf(ts, action.Inputs, given) {
		values["inputs."+name] = expand(ts, value, values)
	}
	for _, name := range []string{"output", "path"} {
		ts.Check(os.RemoveAll(ts.MkAbs(name)))
	}
	for _, step := range action.Runs.Steps {
		if strings.Contains(step.Run, "${{") {
			ts.Fatalf("an input is in the text of a command: %s", step.Run)
		}
		env := runnerOf(ts, dir)
		maps.Copy(env, of)
		for name, value := range step.Env {
			env[name] = expand(ts, value, values)
		}
		runSteps(ts, neg, env, step.Run)
	}
	if found := readIfThere(ts, "path"); found != "" {
		ts.Setenv("PATH", strings.TrimSpace(found)+string(os.PathListSeparator)+ts.Getenv("PATH"))
	}
	outputs := map[string]string{}
	for line := range strings.Lines(readIfThere(ts, "output")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		outputs[name] = value
	}
	return outputs
}

// eventOf returns GitHub's data about the event that started a job. In a script, PULL_REQUEST is the number of a pull
// request, and FROM is its source repository.
func eventOf(ts *testscript.TestScript) map[string]string {
	return map[string]string{
		"github.token":                                  ts.Getenv("JOB_TOKEN"),
		"github.event.pull_request.number":              ts.Getenv("PULL_REQUEST"),
		"github.event.pull_request.head.repo.full_name": ts.Getenv("FROM"),
		"github.event.pull_request.head.sha":            ts.Getenv("COMMIT"),
	}
}

// runnerOf returns the environment of a step on GitHub.
func runnerOf(ts *testscript.TestScript, action string) map[string]string {
	return map[string]string{
		"GITHUB_ACTIONS": "true", "GITHUB_ACTION_PATH": action, "GITHUB_OUTPUT": ts.MkAbs("output"), "GITHUB_STEP_SUMMARY": ts.MkAbs("summary"), "GITHUB_PATH": ts.MkAbs("path"),
		"GITHUB_API_URL": ts.Getenv("FORGE"), "GITHUB_REPOSITORY": "acme/shop", "GITHUB_SERVER_URL": "https://github.example.org", "GITHUB_RUN_ID": "42",
	}
}

// onGitLabRunner implements the command `gitlab JOB NAME=VALUE…`. It runs a job of the component with these inputs, as
// a runner of GitLab does.
func onGitLabRunner(ts *testscript.TestScript, neg bool, args []string) {
	given := map[string]string{}
	for _, g := range args[1:] {
		name, value, _ := strings.Cut(g, "=")
		given[name] = value
	}
	useComponent(ts, neg, args[0], given)
}

// gitLabJob is a job of a GitLab pipeline.
type gitLabJob struct {
	Extends   string
	Variables map[string]string
	Script    []string
}

// useComponent runs one job of the component.
func useComponent(ts *testscript.TestScript, neg bool, name string, given map[string]string) {
	path := filepath.Join(deployCI, "gitlab", "writ.yml")
	var head struct {
		Spec struct{ Inputs map[string]ciInput }
	}
	var jobs map[string]gitLabJob
	readCI(ts, path, 0, &head)
	readCI(ts, path, 1, &jobs)
	script, err := filepath.Abs(filepath.Join(deployCI, "writ-ci.sh"))
	ts.Check(err)
	given["script"] = script
	inputs := inputsOf(ts, head.Spec.Inputs, given)
	input := regexp.MustCompile(`\$\[\[ inputs\.([a-z0-9]+) \]\]`)
	insert := func(text string) string {
		return input.ReplaceAllStringFunc(text, func(e string) string { return inputs[input.FindStringSubmatch(e)[1]] })
	}
	for key, job := range maps.Clone(jobs) {
		jobs[insert(key)] = job // GitLab merges the files of several components
	}
	job := jobs[name]
	env := map[string]string{
		"GITLAB_CI": "true", "CI_PROJECT_ID": "12", "CI_COMMIT_SHA": ts.Getenv("COMMIT"), "CI_JOB_URL": "https://gitlab.example.org/acme/shop/-/jobs/42",
		"CI_API_V4_URL": ts.Getenv("FORGE"),
	}
	if number := ts.Getenv("PULL_REQUEST"); number != "" {
		env["CI_MERGE_REQUEST_IID"], env["CI_MERGE_REQUEST_PROJECT_ID"] = number, "12"
		env["CI_MERGE_REQUEST_SOURCE_PROJECT_ID"] = ts.Getenv("FROM")
	}
	for _, variables := range []map[string]string{jobs[insert(job.Extends)].Variables, job.Variables} {
		for name, value := range variables {
			env[name] = insert(value)
		}
	}
	for name := range env { // project variables override the variables of a job
		if value := ts.Getenv(name); value != "" {
			env[name] = value
		}
	}
	text := strings.Join(job.Script, "\n")
	if text == "" || strings.Contains(text, "$[[") {
		ts.Fatalf("the job %s has no script, or an input is in its text: %s", name, text)
	}
	runSteps(ts, neg, env, text)
}

// runSteps runs commands with the given environment in a shell that stops at the first failure.
func runSteps(ts *testscript.TestScript, neg bool, env map[string]string, text string) {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		words = append(words, name+"="+env[name])
	}
	if err := ts.Exec("env", append(words, "sh", "-ec", text)...); (err != nil) != neg {
		ts.Fatalf("it ended with %v\n%s%s", err, ts.ReadFile("stdout"), ts.ReadFile("stderr"))
	}
}

// readCI parses a document of a YAML file.
func readCI(ts *testscript.TestScript, path string, document int, into any) {
	text, err := os.ReadFile(path)
	ts.Check(err)
	_, err = yaml.Unmarshal([]byte(strings.Split(string(text), "\n---\n")[document]), into, yaml.DecodeOpts{})
	ts.Check(err)
}

// readIfThere returns the content of a file, "" if it does not exist.
func readIfThere(ts *testscript.TestScript, name string) string {
	text, err := os.ReadFile(ts.MkAbs(name))
	if !errors.Is(err, fs.ErrNotExist) {
		ts.Check(err)
	}
	return string(text)
}

// inputsOf returns the values of inputs: the given value, or else the default.
func inputsOf(ts *testscript.TestScript, inputs map[string]ciInput, given map[string]string) map[string]string {
	values := map[string]string{}
	for name, input := range inputs {
		if input.Default != nil {
			values[name] = fmt.Sprint(input.Default)
		}
	}
	for name, value := range given {
		if _, known := inputs[name]; !known {
			ts.Fatalf("unknown input %s", name)
		}
		values[name] = value
	}
	return values
}

var expression = regexp.MustCompile(`\$\{\{ ([a-zA-Z0-9_.-]+) \}\}`)

// expand replaces GitHub expressions by their values.
func expand(ts *testscript.TestScript, text string, values map[string]string) string {
	return expression.ReplaceAllStringFunc(text, func(e string) string {
		value, known := values[expression.FindStringSubmatch(e)[1]]
		if !known {
			ts.Fatalf("%s has no value", e)
		}
		return value
	})
}

package author

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/daemon"
	"writ/cmd/writ/internal/rehearsal"
	"writ/cmd/writ/internal/terminal"
	"writ/scripts"
	"writ/scripts/interpreter"
	"writ/scripts/scripttest"
)

// testFlags select the tests to run and configure them.
type testFlags struct {
	run      string
	verbose  bool
	failFast bool
	count    int
	timeout  time.Duration
	junit    string
	own      cli.ModuleFlags
	log      cli.LogFlags
}

func testCommand(env *cli.Env) *cobra.Command {
	var f testFlags
	c := &cobra.Command{
		Use:   "test [PATH…]",
		Short: "Test scripts on simulated drivers",
		Long: `Runs tests of scripts. PATH is a file whose name ends with _test.tengo, or a directory with such files. The
default is the working directory.

A test is a function test_…(t) in the script language. It runs a script, for example with t.run("web.tengo",
{params: {count: 3}}). It checks the result, for example with t.equal(r.steps, […]). Each test has its own
datacenter in this process. Supervisor, journal, signatures and node are real; the drivers are simulated. A test can
inject failures into calls, and retries do not wait. Tests only write to a temporary directory and contact no
server.

The exit code is 0. It is 1 if a test failed, and 2 if a test file is invalid. In GitHub Actions the command also
annotates the files.`,
		Example: `  # web_test.tengo, next to web.tengo:
  #
  #   test_creates_one_machine := func(t) {
  #       r := t.run("web.tengo", {params: {count: 1}})
  #       t.equal(r.state, "succeeded")
  #       t.contains(r.steps, "machine.create web-0")
  #   }
  #
  #   test_survives_a_full_node := func(t) {
  #       full := {code: "NO_CAPACITY", times: 2}
  #       r := t.run("web.tengo", {fail: {"machine.create web-0": full}})
  #       t.equal(t.call(r, "machine.create web-0").tries, 3)
  #   }

  # every test in this directory and below it
  writ test

  # one test with its output
  writ test -v --run full_node web_test.tengo

  # in a CI pipeline
  writ test --junit report.xml scripts`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return test(cmd.Context(), env, args, &f) },
	}
	flags := c.Flags()
	flags.StringVar(&f.run, "run", "", "only tests whose name matches this regular expression")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "show every test and its output")
	flags.BoolVar(&f.failFast, "fail-fast", false, "stop after the first test that fails")
	flags.IntVar(&f.count, "count", 1, "number of runs of each test")
	cli.InRange(flags, "count", &f.count, 1, cli.Most)
	flags.DurationVar(&f.timeout, "timeout", time.Minute, "time limit of one test")
	cli.InRange(flags, "timeout", &f.timeout, time.Millisecond, cli.Longest)
	flags.StringVar(&f.junit, "junit", "", "file to write the results to as JUnit XML, for Jenkins, GitLab and others")
	f.own.Add(c)
	f.log.Add(c, "error")
	return c
}

func test(ctx context.Context, env *cli.Env, paths []string, f *testFlags) error {
	wanted, err := regexp.Compile(f.run)
	if err != nil {
		return writ.Errorf(writ.CodeUsage, "--run %q is not a regular expression: %v", f.run, err)
	}
	modules, err := f.own.Modules()
	if err != nil {
		return err
	}
	files, err := testFiles(paths)
	if err != nil {
		return err
	}
	log, err := cli.NewLog(env, f.log)
	if err != nil {
		return err
	}
	evaluator, endChildren := daemon.NewEvaluator(log, nil)
	t := &tester{Env: env, flags: f, wanted: wanted, modules: modules, evaluator: evaluator, log: log}
	report := newTestReport(env, f.verbose)
	err = t.files(ctx, files, report)
	if err = errors.Join(err, endChildren()); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return terminal.Interrupted("")
	}
	if len(report.all) == 0 {
		return writ.Errorf(writ.CodeUsage, "no test's name matches --run %q", f.run).WithHint("`writ test -v` names them all")
	}
	return report.conclude(f.junit)
}

// testFiles returns the files with tests in paths, each once.
func testFiles(paths []string) ([]string, error) {
	if len(paths) == 0 {
		paths = []string{"."}
	}
	var files []string
	seen := make(map[string]bool)
	add := func(path string) {
		if path = filepath.Clean(path); !seen[path] {
			seen[path] = true
			files = append(files, path)
		}
	}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err == nil && info.IsDir() {
			err = testFilesBelow(path, add)
		}
		switch {
		case err != nil:
			return nil, writ.Errorf(writ.CodeUsage, "cannot read the tests: %v", err).
				WithHint("give a file that ends with _test.tengo, or a directory that has one")
		case info.IsDir(): // its files are added
		case !scripts.IsTest(path):
			return nil, writ.Errorf(writ.CodeUsage, "%s is not a file with tests: its name does not end with %s", path,
				scripts.TestEnding).
				WithHint("the tests of web.tengo are in web%s", scripts.TestEnding)
		default:
			add(path)
		}
	}
	if len(files) == 0 {
		return nil, writ.Errorf(writ.CodeUsage, "there are no tests in %s", strings.Join(paths, ", ")).
			WithHint("tests are in files whose name ends with %s; `writ test --help` shows one", scripts.TestEnding)
	}
	return files, nil
}

// testFilesBelow passes the files in a directory and its subdirectories to add. It skips hidden directories.
func testFilesBelow(dir string, add func(path string)) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != dir && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case entry.Type().IsRegular() && scripts.IsTest(entry.Name()):
			add(path)
		}
		return nil
	})
}

// tester runs tests.
type tester struct {
	*cli.Env
	flags     *testFlags
	wanted    *regexp.Regexp
	modules   client.Modules
	evaluator daemon.Evaluator
	log       *slog.Logger
}

// files runs the tests of files until ctx ends, or a test fails and --fail-fast is set.
func (t *tester) files(ctx context.Context, paths []string, report *testReport) error {
	if _, err := t.evaluator.Confinement(ctx); err != nil {
		return err
	}
	for _, path := range paths {
		script, err := client.ReadScript(path, t.modules)
		if err != nil {
			return err
		}
		if err := t.file(ctx, script, report); err != nil {
			return err
		}
		if t.enough(ctx, report) {
			return nil
		}
	}
	return nil
}

// file runs the tests of one file. If the file has errors, it reports them instead.
func (t *tester) file(ctx context.Context, script client.Script, report *testReport) error {
	if !script.Report.OK() {
		report.begin(script)
		report.broken(script.Report)
		return nil
	}
	if !slices.ContainsFunc(script.Report.Tests,
		func(test scripttest.Test) bool { return t.wanted.MatchString(test.Name) }) {
		return nil
	}
	file, err := interpreter.CompileTests(script.Bundle)
	if err != nil {
		return err
	}
	report.begin(script)
	for range t.flags.count {
		t.round(ctx, file, filepath.Dir(script.Path), report)
	}
	if ctx.Err() == nil {
		report.end()
	}
	return nil
}

// round runs each wanted test of a file once, until ctx ends, or a test fails and --fail-fast is set.
func (t *tester) round(ctx context.Context, file *interpreter.TestFile, dir string, report *testReport) {
	for i, test := range file.Tests() {
		if t.enough(ctx, report) {
			return
		}
		if !t.wanted.MatchString(test.Name) {
			continue
		}
		report.start(test)
		began := time.Now()
		verdict := t.one(ctx, file, i, dir)
		if ctx.Err() == nil {
			report.done(verdict, time.Since(began))
		}
	}
}

// enough reports whether no more tests should run.
func (t *tester) enough(ctx context.Context, report *testReport) bool {
	return ctx.Err() != nil || t.flags.failFast && report.failed()
}

// one runs one test, in its own simulated datacenter.
func (t *tester) one(ctx context.Context, file *interpreter.TestFile, i int, dir string) scripttest.Verdict {
	ctx, stop := context.WithTimeoutCause(ctx, t.flags.timeout,
		writ.Errorf(writ.CodeTimeout, "the test did not end in %s", t.flags.timeout))
	defer stop()
	sim := &rehearsal.Sim{Dir: dir, Modules: t.modules, Evaluator: t.evaluator, Log: t.log}
	verdict := file.Run(ctx, i, sim)
	if err := sim.Close(); err != nil {
		verdict.Outcome = scripttest.Failed
		verdict.Notes = append(verdict.Notes,
			scripttest.Note{Failure: true, Text: "cannot stop the datacenter of the test: " + err.Error()})
	}
	return verdict
}

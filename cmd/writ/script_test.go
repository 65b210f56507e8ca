package main

import (
	"bufio"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/crypto/ssh"

	"writ/cmd/writ/internal/test/testcluster"
	"writ/internal/test/testenv"
	"writ/scripts/evaluator"
)

// TestMain makes this test binary act as writ, and as a child of its evaluator.
func TestMain(m *testing.M) {
	if evaluator.IsChild(os.Args) {
		os.Exit(evaluator.Main())
	}
	testscript.Main(tidy{m}, map[string]func(){"writ": main})
}

// tidy removes the shared files of this package's tests when all tests have ended.
type tidy struct{ m *testing.M }

func (t tidy) Run() int {
	defer func() { _ = testcluster.RemoveBinaries() }() // any rest is in the temporary directory
	_ = flag.Set("test.parallel", "6")                  // unless it is set: these tests mostly wait for processes
	return t.m.Run()
}

// TestScripts runs command lines as users do; see testdata/script.
//
// Promise: CI certificates and batches: A CI job signs with a certificate from ssh-keygen, an agent or a file, and
// commands show its key id and authority.
// How: The client reads the certificate next to the key, as ssh does.
// Subtest: ca
//
// Promise: Recovery: Removing a node with resources, or declaring it lost, requires a confirmation or `--yes`.
// How: The command shows the node's state and resources, as the coordinator reports them; without a terminal and
// `--yes` it signs no statement.
// Subtest: lost
// Also: TestWorkingNodeEndsAtAPersonsCommand
//
// Promise: Recovery: The names of a removed node's resources are free after `writ node lost`, and its resources stop
// when it returns.
// How: The client includes removed nodes and signs if the supervisor has signed the removal.
// Subtest: lost
// Also: TestRemovedNodeCanBeDeclaredLost
//
// Promise: Recovery: `writ hold` and `writ release` affect a whole datacenter only if `--dc` names it.
// How: Without a selecting flag the command signs no statement; a hold of an unknown deployment is signed with a
// warning.
// Subtest: hold
//
// Promise: Operation: A mistyped name of a datacenter, project, context, deployment, hold, person, resource or node
// gets a suggestion.
// How: One function compares it with the readable names.
// Subtest: operator
// Also: TestClosestFindsTheNearestName
//
// Promise: Plans, scripts and manuals: `writ plan` reports in text and exit code that a script would change no
// resource.
// How: Calls without a change have known results.
// Subtest: plan
//
// Promise: Commands and hosts: A join token that could not be printed admits no node: it is revoked, or the error
// names the revoking command.
// Subtest: refused
//
// Promise: Commands and hosts: A command rejects empty names and empty flag values, for example from an unset
// variable.
// How: One function checks the flags, and one the arguments, before a command begins; `--reason` and flags of daemons
// may be empty.
// Subtest: context
//
// Promise: Commands and hosts: Interrupting a command leaves its run open, or cancels it with `--cancel-on-exit`, and
// prints the signed outcome.
// How: The cancel is signed within 8 s; a second signal does not end it.
// Subtest: ci-cancel
//
// Promise: Releases and CI: A job shows its plan in one pull request comment, updated by the next push, and changes
// no other comment.
// How: A mark in the comment, and its author; curl reads the token from its standard input; values of secret
// variables are omitted.
// Subtest: ci-comment
//
// Promise: Releases and CI: A GitHub job shows its plan and its run's signed end in its summary, without markup from
// scripts.
// How: Both are blocks of code with fences that their text cannot close.
// Subtest: ci
// Also: TestPlanInACommentIsEscaped
//
// Promise: Releases and CI: The examples of ci.md for GitHub, GitLab and other runners work as printed.
// How: The test runs the page.
// Subtest: ci-manual
//
// Promise: Releases and CI: A private key that a CI system holds as text is a file for one command only, and errors
// about it do not print it.
// How: It is in a directory of the job that only its user reads.
// Subtest: ci-keys.
func TestScripts(t *testing.T) { runScripts(t, "testdata/script") }

// TestCIStartsFromCheckout makes a release as in the manual, puts it on a file share and runs the jobs of the manual
// with it.
func TestCIStartsFromCheckout(t *testing.T) {
	testenv.Nightly(t, "TestScripts/ci-manual, with a release that is made for the test")
	testenv.Need(t, "git")
	testenv.Need(t, "gcc")
	runScripts(t, "testdata/nightly")
}

// TestStockToolsAreEnough signs and submits with tools that every machine has.
//
// Promise: Signatures and rosters: A person can sign and submit with stock `ssh-keygen`, `cat` and `curl`.
// How: The payload is plain text, the signature is SSHSIG.
func TestStockToolsAreEnough(t *testing.T) {
	testenv.Need(t, "ssh-keygen")
	testenv.Need(t, "curl")
	runScripts(t, "testdata/stock")
}

func runScripts(t *testing.T, dir string) {
	maker := testenv.Maker(t)
	testscript.Run(t, testscript.Params{
		Dir: dir,
		Setup: func(env *testscript.Env) error {
			home := filepath.Join(env.WorkDir, "home")
			examples, err := filepath.Abs("../../scripts/examples")
			if err != nil {
				return err
			}
			env.Vars = append(env.Vars, maker)
			ci, err := filepath.Abs(deployCI)
			if err != nil {
				return err
			}
			env.Setenv("CI_SCRIPTS", ci)
			env.Setenv("EXAMPLES", examples)
			env.Setenv("HOME", home)
			env.Setenv("XDG_CONFIG_HOME", filepath.Join(home, "config"))
			env.Setenv("XDG_STATE_HOME", filepath.Join(home, "state"))
			return os.Mkdir(home, 0o700)
		},
		Condition: func(named string) (bool, error) { // [tool:jq]; [exec:jq] would also skip where skips are forbidden
			tool, known := strings.CutPrefix(named, "tool:")
			if !known {
				return false, fmt.Errorf("unknown condition %s", named)
			}
			return testenv.Has(tool)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"dev":       startDev,
			"newkey":    newKey,
			"muteagent": muteAgent,
			"setenv":    setFromFile,
			"await":     await,
			"github":    onGitHubRunner,
			"gitlab":    onGitLabRunner,
			"release":   releaseAt,
			"forge":     forgeAt,
			"manual":    asInTheManual,
			"typed":     typePage,
			"checkout":  topDirectory,
		},
	})
}

// startDev implements the command `dev ARGUMENTS…`: it runs `writ dev` on a free port until the script ends, and
// returns when it is ready.
func startDev(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("dev cannot be negated")
	}
	data := ts.MkAbs("dev")
	path := filepath.Join(strings.Split(ts.Getenv("PATH"), string(os.PathListSeparator))[0], "writ")
	cmd := exec.Command(path, append([]string{"dev", "--data", data, "--listen", "127.0.0.1:0", "--simulate-speed", "0"}, args...)...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = []string{"HOME=" + ts.Getenv("HOME"), "PATH=" + os.Getenv("PATH"), testenv.MakerVar + "=" + ts.Getenv(testenv.MakerVar)}
	log, err := cmd.StderrPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	ts.Defer(func() {
		_ = cmd.Process.Signal(syscall.SIGINT)
		if err := cmd.Wait(); err != nil {
			ts.Logf("writ dev ended: %v", err)
		}
	})
	var said strings.Builder
	for lines := bufio.NewScanner(log); lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), "Ctrl-C ends it") {
			go io.Copy(io.Discard, log) // ends with the process
			ts.Setenv("WRIT_CONFIG", filepath.Join(data, "client.yaml"))
			ts.Check(os.WriteFile(ts.MkAbs("dev.log"), []byte(said.String()), 0o600))
			return
		}
	}
	ts.Fatalf("writ dev is not ready; output:\n%s", said.String())
}

// muteAgent implements the command `muteagent`: it sets the environment to an ssh-agent that accepts connections and
// never answers. The first connection writes the file asked.
func muteAgent(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: muteagent")
	}
	asked := ts.MkAbs("asked")
	socket, stop, err := testenv.StartMuteAgent(func() {
		_ = os.WriteFile(asked, []byte("yes\n"), 0o600) // without the file, the script times out and fails
	})
	ts.Check(err)
	ts.Defer(stop)
	ts.Setenv("SSH_AUTH_SOCK", socket)
}

// setFromFile implements the command `setenv NAME FILE`: it sets an environment variable to the content of a file.
func setFromFile(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: setenv NAME FILE")
	}
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile(args[1])))
}

// await implements the command `await PATTERN PROGRAM ARGUMENTS…`: it runs a program repeatedly until its output
// matches the pattern.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: await PATTERN PROGRAM ARGUMENTS…")
	}
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(2 * time.Minute); ; {
		if err := ts.Exec(args[1], args[2:]...); err == nil && pattern.MatchString(ts.ReadFile("stdout")) {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			ts.Fatalf("output of %v lacks %q", args[1:], args[0])
		}
	}
}

// newKey implements the command `newkey [-rsa|-locked] FILE`: it creates an SSH key, and its public half next to it.
func newKey(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: newkey [-rsa|-locked] FILE")
	}
	path := ts.MkAbs(args[len(args)-1])
	public, private, err := ed25519.GenerateKey(nil)
	ts.Check(err)
	key, err := ssh.NewPublicKey(public)
	ts.Check(err)
	block, err := ssh.MarshalPrivateKey(private, "")
	switch args[0] {
	case "-locked":
		block, err = ssh.MarshalPrivateKeyWithPassphrase(private, "", []byte("secret"))
	case "-rsa":
		other, rerr := rsa.GenerateKey(rand.Reader, 2048)
		ts.Check(rerr)
		key, rerr = ssh.NewPublicKey(&other.PublicKey)
		ts.Check(rerr)
		block, err = ssh.MarshalPrivateKey(other, "")
	}
	ts.Check(err)
	ts.Check(os.WriteFile(path, pem.EncodeToMemory(block), 0o600))
	ts.Check(os.WriteFile(path+".pub", ssh.MarshalAuthorizedKey(key), 0o600))
}

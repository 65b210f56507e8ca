package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"writ/cmd/writ/internal/test/testcluster"
	"writ/internal/test/testenv"
)

// Every API operation matches its description, for valid and invalid requests that schemathesis generates from it. The
// link and the event streams are excluded because they do not end.
//
// Promise: Events, traces and the API: The API answers each valid request and refuses each invalid request as its
// description specifies.
// How: The description has the limits of all parameters and fields; exceptions are in
// coord/api/testdata/schemathesis.toml with their reasons.
// Also: TestEveryErrorIsAProblem, TestInvalidParametersAreRefused, TestRoutesAreThoseOfTheSpec,
// TestNoBodyHasAnUnknownField.
func TestAPIMatchesItsDescription(t *testing.T) {
	testenv.Nightly(t, "TestEveryErrorIsAProblem, TestRoutesAreThoseOfTheSpec and the tests of handlers make invalid requests")
	t.Parallel()
	schemathesis := testenv.Need(t, "schemathesis")
	s := testcluster.New(t)
	s.Add(testcluster.Datacenter{Name: "dc1", Redis: testenv.Redis(t).URL, Nodes: 2, Speed: "0"})
	s.Script("pair.tengo", `volume := import("volume")
run := import("run")
disk := volume.create("disk", {size_gib: 1})
run.log("made " + disk.name)
run.output({disk: disk.name})
`)
	s.Submit("pair.tengo")
	s.Script("fails.tengo", `import("volume").delete("disk")`+"\n")
	s.Try("submit", "fails.tengo") // the signer lacks the permission to delete

	described, err := filepath.Abs("../../coord/api")
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), schemathesis, "--config-file", "schemathesis.toml", "run", filepath.Join(described, "openapi.yaml"), "--url", s.URL,
		"--header", "Authorization: Bearer "+strings.TrimSpace(s.Writ("login", "--token")), "--seed", strconv.FormatUint(testenv.Seed(t, 0)%(1<<31), 10),
		"--phases", "examples,coverage,fuzzing", "--max-examples", "30", "--rate-limit", "60/s", "--request-timeout", "30", "--continue-on-failure", "--no-color",
		"--suppress-health-check", "filter_too_much", // few texts are base64 of 32 bytes
		"--exclude-path-regex", `^/v1/(link|events|runs/\{run\}/events)$`)
	c.Dir = t.TempDir() // schemathesis writes its findings there
	if err := os.CopyFS(c.Dir, os.DirFS(filepath.Join(described, "testdata"))); err != nil {
		t.Fatal(err)
	}
	c.Env = append(c.Environ(), "PYTHONPATH=.", "PYTHONDONTWRITEBYTECODE=1", "SCHEMATHESIS_HOOKS=schemathesis_hooks", "HOME="+t.TempDir())
	text, err := c.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, text)
	}
	if !strings.Contains(string(text), "generated") {
		t.Errorf("nothing was asked:\n%s", text)
	}
	s.Runs("coord", "dc1")
}

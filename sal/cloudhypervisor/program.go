package cloudhypervisor

import (
	"cmp"
	"context"
	"errors"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"writ"
)

// program is the path or name of cloud-hypervisor; see Driver.Program.
type program string

// path returns the path of the program.
func (p program) path() (string, error) {
	path, err := exec.LookPath(cmp.Or(string(p), "cloud-hypervisor"))
	if err != nil {
		return "", writ.Errorf(writ.CodeDriverMissing, "this node has no cloud-hypervisor: %w", err).
			WithHint("put cloud-hypervisor v%d or newer on the PATH of the runner", oldest)
	}
	return path, nil
}

// oldest is the first supported version. Earlier versions gave the same answer for all errors.
const oldest = 53

// versionGuard limits how long the program may run for --version.
const versionGuard = 10 * time.Second

// version returns the version of the program, such as "v53.0". It returns DRIVER_MISSING if the program is missing or
// unusable.
func (p program) version(ctx context.Context) (version string, err error) {
	said, err := p.about(ctx)
	if err != nil {
		return "", err
	}
	words := strings.Fields(said) // "cloud-hypervisor v53.0", and lines about other things
	if len(words) > 1 {
		version = words[1]
	}
	return version, checkVersion(version)
}

// about returns the output of the program for --version.
func (p program) about(ctx context.Context) (string, error) {
	path, err := p.path()
	if err != nil {
		return "", err
	}
	limited, cancel := context.WithTimeout(ctx, versionGuard)
	defer cancel()
	ask := exec.CommandContext(limited, path, "--version")
	ask.WaitDelay = time.Second // in case a child process keeps the output open
	said, err := ask.Output()
	if err != nil {
		return "", writ.Errorf(writ.CodeDriverMissing, "%s does not report its version: %w", path, err)
	}
	return string(said), nil
}

func checkVersion(version string) error {
	major, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	if n, err := strconv.Atoi(major); err == nil && n >= oldest {
		return nil
	}
	return writ.Errorf(writ.CodeDriverMissing, "cloud-hypervisor %s is too old", version).
		WithHint("v%d or newer is needed", oldest)
}

// check returns the version, or a short reason why the program is unusable.
func (p program) check(ctx context.Context) (string, error) {
	version, err := p.version(ctx)
	if errors.Is(err, exec.ErrNotFound) {
		return "", errors.New("not on PATH")
	}
	if err != nil {
		return "", errors.New(writ.AsError(err).Message)
	}
	return version, nil
}

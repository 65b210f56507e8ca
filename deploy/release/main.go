// Release builds all files of a release: programs, packages for Debian and Fedora, a container image, lists of
// components and checksums. Builds are reproducible with equal sources and toolchains. Release is a separate module, so
// that writ does not depend on its libraries.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/mod/semver"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("release", flag.ContinueOnError)
	version := f.String("version", "", "version, like v1.2.3; the tag of the commit if not given")
	source := f.String("source", ".", "directory of writ's source, a clone without changes")
	out := f.String("out", "dist", "directory for the files, which must be empty or not exist")
	platforms := f.String("platforms", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64",
		"operating systems and processors")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unexpected arguments: %q", f.Args())
	}
	s, err := sourceAt(ctx, *source, *version)
	if err != nil {
		return err
	}
	s.progress = os.Stderr
	list, err := parsePlatforms(*platforms)
	if err != nil {
		return err
	}
	if err := makeEmpty(*out); err != nil {
		return err
	}
	built, err := s.build(ctx, list)
	if err != nil {
		return err
	}
	defer os.RemoveAll(built.dir)
	return (&packer{s, built, *out}).pack()
}

// source is the checked-out source of a release.
type source struct {
	dir     string
	version string    // of the release, for example v1.2.3
	made    time.Time // time of the commit, used for all files

	progress io.Writer // receives one line per file
}

// sourceAt validates a clone: it must have no uncommitted changes, and its commit must have a tag unless version is
// given.
func sourceAt(ctx context.Context, dir, version string) (*source, error) {
	git := func(args ...string) (string, error) {
		text, err := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...).Output()
		return strings.TrimSpace(string(text)), err
	}
	if _, err := os.Stat(filepath.Join(dir, "cmd/writ/main.go")); err != nil {
		return nil, fmt.Errorf("%s is not the source of writ: %w; name it with -source", dir, err)
	}
	changed, err := git("status", "--porcelain")
	if err != nil {
		return nil, fmt.Errorf("list the changes in %s with git: %w", dir, err)
	}
	if changed != "" {
		return nil, fmt.Errorf("%s has changes that are not committed; commit or remove them:\n%s", dir, changed)
	}
	if version == "" {
		if version, err = git("describe", "--tags", "--exact-match"); err != nil {
			return nil, fmt.Errorf("the commit has no tag; tag it, or name a version with -version")
		}
	}
	if !semver.IsValid(version) || semver.Canonical(version) != strings.SplitN(version, "+", 2)[0] {
		return nil, fmt.Errorf("invalid version %q; versions are like v1.2.3 or v1.2.3-rc.1", version)
	}
	text, err := git("log", "-1", "--format=%ct")
	if err != nil {
		return nil, fmt.Errorf("ask git for the time of the commit: %w", err)
	}
	seconds, err := strconv.ParseInt(cmp.Or(os.Getenv("SOURCE_DATE_EPOCH"), text), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("read the time of the commit: %w", err)
	}
	return &source{dir: dir, version: version, made: time.Unix(seconds, 0).UTC()}, nil
}

// makeEmpty creates a directory. It returns an error if the directory contains files.
func makeEmpty(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the directory of the release: %w", err)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("look into the directory of the release: %w", err)
	}
	if len(files) > 0 {
		return fmt.Errorf("%s is not empty; remove it, or name another directory with -out", dir)
	}
	return nil
}

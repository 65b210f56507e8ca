package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// platform is an operating system and a processor architecture, with Go's names.
type platform struct{ OS, Arch string }

func (p platform) String() string { return p.OS + "/" + p.Arch }

// known lists the platforms that writ is built for. Nodes and supervisors need Linux. On macOS only the client commands
// are usable.
var known = []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}

func parsePlatforms(text string) (list []platform, err error) {
	for name := range strings.SplitSeq(text, ",") {
		i := slices.IndexFunc(known, func(p platform) bool { return p.String() == name })
		if i < 0 {
			return nil, fmt.Errorf("writ is not built for %q, only for %v", name, known)
		}
		if slices.Contains(list, known[i]) {
			return nil, fmt.Errorf("%s is named twice", name)
		}
		list = append(list, known[i])
	}
	return list, nil
}

// program is writ built for a platform.
type program struct {
	platform
	path string
}

// builds holds the programs of a release, and the manual pages and completions that the program for this machine
// printed.
type builds struct {
	dir         string // temporary
	programs    []program
	man         string            // directory of manual pages
	completions map[string]string // files by shell
}

// compilers lists the C compilers for the drivers that need one. On other platforms, these drivers are not built in.
var compilers = map[platform]string{
	{"linux", "amd64"}: "x86_64-linux-gnu-gcc", {"linux", "arm64"}: "aarch64-linux-gnu-gcc",
}

// build builds writ for each platform. The caller removes the directory.
func (s *source) build(ctx context.Context, platforms []platform) (*builds, error) {
	dir, err := os.MkdirTemp("", "writ-release-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for the programs: %w", err)
	}
	b := &builds{dir: dir}
	for _, p := range platforms {
		built := program{p, filepath.Join(dir, p.OS+"_"+p.Arch, "writ")}
		if err := s.compile(ctx, built); err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
		b.programs = append(b.programs, built)
	}
	if err := s.describe(ctx, b); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return b, nil
}

// tags lists the build tags of a release. grpcnotrace removes the traces of gRPC, which are rendered with templates.
const tags = "release,grpcnotrace,netgo,osusergo"

// profile is a CPU profile of all daemons under load. With it, the compiler makes calls that are frequent there cheaper,
// which saves about a tenth of the CPU time of a call (measured with `writ bench`). `task profile` records it.
const profile = "deploy/release/cpu.pgo"

// compile builds a statically linked program. If the host has no C compiler for the platform, the program lacks the
// drivers that need one.
func (s *source) compile(ctx context.Context, p program) error {
	flags := "-s -w -X main.release=" + s.version
	environ := append(os.Environ(), "GOOS="+p.OS, "GOARCH="+p.Arch, "GOFLAGS=", "CGO_ENABLED=0")
	compiler, err := exec.LookPath(compilers[p.platform])
	if err == nil {
		flags += ` -linkmode external -extldflags "-static"`
		environ = append(environ, "CGO_ENABLED=1", "CC="+compiler)
	} else if p.OS == "linux" {
		fmt.Fprintf(s.progress, "warning: %s is not on PATH, so writ for %s has no driver for btrfs\n", compilers[p.platform],
			p)
	}
	c := exec.CommandContext(ctx, "go", "build", "-trimpath", "-pgo", profile, "-tags", tags, "-ldflags", flags, "-o", p.path, "./cmd/writ")
	c.Dir, c.Env, c.Stdout, c.Stderr = s.dir, environ, s.progress, s.progress
	if err := c.Run(); err != nil {
		return fmt.Errorf("build writ for %s: %w", p, err)
	}
	return nil
}

// describe generates manual pages and completions with the program for this machine.
func (s *source) describe(ctx context.Context, b *builds) error {
	here := program{platform{runtime.GOOS, runtime.GOARCH}, filepath.Join(b.dir, "here", "writ")}
	if i := slices.IndexFunc(b.programs, func(p program) bool { return p.platform == here.platform }); i >= 0 {
		here = b.programs[i]
	} else if err := s.compile(ctx, here); err != nil {
		return err
	}
	return b.ask(ctx, here.path)
}

// ask writes the manual pages and completions that a program prints.
func (b *builds) ask(ctx context.Context, writ string) error {
	b.man, b.completions = filepath.Join(b.dir, "man"), map[string]string{}
	if text, err := exec.CommandContext(ctx, writ, "man", b.man).CombinedOutput(); err != nil {
		return fmt.Errorf("write the manual pages: %w: %s", err, text)
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		text, err := exec.CommandContext(ctx, writ, "completion", shell).Output()
		if err != nil {
			return fmt.Errorf("write the completion of %s: %w", shell, err)
		}
		b.completions[shell] = filepath.Join(b.dir, "writ."+shell)
		if err := os.WriteFile(b.completions[shell], text, 0o644); err != nil {
			return fmt.Errorf("write the completion of %s: %w", shell, err)
		}
	}
	return nil
}

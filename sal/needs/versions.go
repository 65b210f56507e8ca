package needs

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"writ/internal/lazyregexp"
)

// versionPattern matches the version in the output of a program.
var versionPattern = lazyregexp.New(`(?:^|[ =v])([0-9]+(?:\.[0-9]+)+)`)

// versionTimeout limits how long a program may take to report its version.
const versionTimeout = 10 * time.Second

// versionOf runs a program with arguments that make it print its version; argv[0] is its name. It returns "" if the
// output has no version. If the program fails, it returns the error and any version in the output.
func versionOf(ctx context.Context, path string, argv []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path)
	cmd.Args, cmd.WaitDelay = argv, time.Second // the delay is for child processes that keep the output open
	said, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s does not report its version: %w", path, cmp.Or(ctx.Err(), err))
	}
	if match := versionPattern.FindSubmatch(said); match != nil {
		return string(match[1]), err
	}
	return "", err
}

// Versions caches the versions of programs until their files change. The zero value is empty.
type Versions struct {
	mu    sync.Mutex
	known []knownVersion
}

// knownVersion is the version that the program in a file reported.
type knownVersion struct {
	file    os.FileInfo
	version string
}

// Of returns the version of a program, "" if it is unknown. argv makes the program print its version; argv[0] is the
// name of the program.
func (v *Versions) Of(ctx context.Context, path string, argv ...string) (string, error) {
	file, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if version, ok := v.find(file); ok {
		return version, nil
	}
	version, err := versionOf(ctx, path, argv)
	if err == nil {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.known = append(v.known, knownVersion{file, version})
	}
	return version, err
}

func (v *Versions) find(file os.FileInfo) (version string, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	i := slices.IndexFunc(v.known, func(k knownVersion) bool {
		return os.SameFile(k.file, file) && k.file.Size() == file.Size() && k.file.ModTime().Equal(file.ModTime())
	})
	if i < 0 {
		return "", false
	}
	return v.known[i].version, true
}

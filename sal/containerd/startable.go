package containerd

import (
	"context"
	"fmt"
	"strings"

	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/oci"

	"writ"
)

// Limits of Linux for a new program (execve(2)), with the default limit of the stack. The runtime detects them after
// the container has started.
const (
	maxWord  = 128<<10 - 1 // bytes of an argument or variable
	maxWords = 2 << 20     // bytes of all arguments and variables, with a NUL and a pointer for each
)

// requireStartable rejects a program that Linux cannot start.
func requireStartable(_ context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
	if strings.Contains(s.Process.Cwd, "\x00") {
		return notStartable("its working directory contains NUL")
	}
	return checkWords(s.Process.Args, s.Process.Env)
}

// checkWords checks the arguments and variables of a program. Its errors contain no value, which may be a secret.
func checkWords(args, env []string) error {
	total := 0
	for i, words := range [][]string{args, env} {
		for n, word := range words {
			name := fmt.Sprintf("its argument %d", n)
			if i == 1 {
				variable, _, _ := strings.Cut(word, "=")
				name = fmt.Sprintf("its variable %.64q", variable)
			}
			switch {
			case strings.Contains(word, "\x00"):
				return notStartable(name + " contains NUL")
			case len(word) > maxWord:
				return notStartable(fmt.Sprintf("%s has %d bytes, and Linux accepts %d", name, len(word), maxWord))
			}
			total += len(word) + 1 + 8
		}
	}
	if total > maxWords {
		return notStartable(fmt.Sprintf("its arguments and variables have %d KiB, and Linux accepts %d", total>>10, maxWords>>10))
	}
	return nil
}

func notStartable(why string) error {
	return writ.Errorf(writ.CodeArgumentsInvalid, "the program cannot start: %s", why).
		WithHint("shorten command and env of the call, or ENTRYPOINT, CMD and ENV of the image; a volume can hold large values")
}

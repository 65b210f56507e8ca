package containerd

import (
	"strings"

	"writ"
	"writ/sal/containerd/imagestore"
)

// failed converts an error of the daemon to a *writ.Error for people. It returns nil for nil. `doing` continues "cannot
// ", such as "find the container".
func failed(doing string, err error) error { return imagestore.Failed(doing, err) }

// gone reports whether an error means "not found".
func gone(err error) bool { return imagestore.IsGone(err) }

// exists reports whether an error means "already exists".
func exists(err error) bool { return imagestore.IsExisting(err) }

// notStarted returns the error of a process that the runtime did not start. An error that the image or the arguments
// cause is not retryable.
func notStarted(doing string, err error) error {
	text := strings.TrimSuffix(err.Error(), ": unknown")
	if i := strings.LastIndex(text, `exec: "`); i >= 0 && imagestore.ContainsAny(text[i:], noProgram) {
		return writ.Errorf(writ.CodeArgumentsInvalid, "cannot %s: the container cannot run it: %s", doing, text[i:]).
			WithHint("no shell runs this command: use the path of the program, or [\"sh\", \"-c\", \"…\"]")
	}
	if _, why, found := strings.Cut(text, "error during container init: "); found && imagestore.ContainsAny(why, badTree) {
		return writ.Errorf(writ.CodeArgumentsInvalid, "cannot %s: its image and its volumes do not match: %s", doing,
			why).
			WithHint("check that the WORKDIR of the image and the path of each volume are directories in the image, or missing")
	}
	return failed(doing, err)
}

// noProgram lists the errors about a program that the container cannot run.
var noProgram = []string{
	"executable file not found", "no such file or directory", "permission denied", "is a directory", "exec format error",
}

// badTree lists the errors about files of an image that block a mount or the working directory. A missing file is not
// among them: a volume may have been deleted meanwhile.
var badTree = []string{
	"not a directory", "is a directory", "file exists", "too many levels of symbolic links",
	"must be mounted on ordinary directory", "permission denied", "file name too long",
}

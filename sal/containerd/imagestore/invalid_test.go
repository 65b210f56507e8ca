package imagestore

import (
	"errors"
	"strings"
	"testing"

	"writ"
)

func TestInvalidLayersAreFinal(t *testing.T) {
	t.Parallel()
	const (
		failed = `apply layer error for "writ/archive@sha256:ab": failed to extract layer sha256:cd: `
		tree   = "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/63/fs/"
	)
	for why, final := range map[string]bool{
		"link " + tree + "etc/shadow " + tree + "etc/key: no such file or directory":               true,
		"mkparent " + tree + "a: not a directory":                                                  true,
		"open " + tree + "nnn: file name too long":                                                 true,
		`failed to setxattr "` + tree + `a" for key "security.capability": invalid argument`:       true,
		`failed to setxattr "` + tree + `a" for key "user.k": no space left on device`:             true,
		"invalid whiteout name: .wh.: invalid archive":                                             true,
		"unhandled tar header type 86":                                                             true,
		"archive/tar: invalid tar header":                                                          true,
		"open " + tree + "a: no such file or directory":                                            false,
		"write " + tree + "a: no space left on device":                                             false,
		"write " + tree + "a: input/output error":                                                  false,
		"mount callback failed on /var/lib/containerd/tmpmounts/containerd-mount1: device is busy": false,
	} {
		err := notUnpacked(errors.New(failed + why))
		if (writ.CodeOf(err) == writ.CodeArgumentsInvalid) != final {
			t.Errorf("%s: %s", why, writ.CodeOf(err))
		}
		if final && (strings.Contains(err.Error(), "/var/lib") || !strings.Contains(err.Error(), "layer sha256:cd")) {
			t.Errorf("%v", err)
		}
	}
	if err := notUnpacked(errors.New("find the snapshot: not a directory")); writ.CodeOf(err) == writ.CodeArgumentsInvalid {
		t.Errorf("another error is final: %v", err)
	}
}

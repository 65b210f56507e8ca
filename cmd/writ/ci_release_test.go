package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"

	"github.com/rogpeppe/go-internal/testscript"
)

// releaseAt implements the command `release`. It serves a release on loopback, and sets RELEASE to its address and
// SHA256 to the digest of its checksums. The archive has the format of deploy/release, whose tests cover the details.
// The program in it runs the test's writ, but reports version v0.1.0.
func releaseAt(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: release")
	}
	writ, err := exec.LookPath("writ")
	ts.Check(err)
	dir := ts.MkAbs("release")
	ts.Check(os.Mkdir(dir, 0o755))
	top := "writ_0.1.0_" + runtime.GOOS + "_" + runtime.GOARCH
	program := fmt.Sprintf("#!/bin/sh\n[ \"$1\" = version ] && exec echo v0.1.0\nexec %s \"$@\"\n", writ)
	f, err := os.Create(ts.MkAbs("release/" + top + ".tar.gz"))
	ts.Check(err)
	z := gzip.NewWriter(f)
	w := tar.NewWriter(z)
	ts.Check(w.WriteHeader(&tar.Header{Name: top + "/writ", Size: int64(len(program)), Mode: 0o755, Format: tar.FormatPAX}))
	_, err = w.Write([]byte(program))
	ts.Check(err)
	ts.Check(w.Close())
	ts.Check(z.Close())
	ts.Check(f.Close())
	packed, err := os.ReadFile(f.Name())
	ts.Check(err)
	sums := fmt.Sprintf("%x  %s.tar.gz\n", sha256.Sum256(packed), top)
	ts.Check(os.WriteFile(ts.MkAbs("release/SHA256SUMS"), []byte(sums), 0o644))
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	ts.Defer(server.Close)
	ts.Setenv("RELEASE", server.URL)
	ts.Setenv("SHA256", fmt.Sprintf("%x", sha256.Sum256([]byte(sums))))
}
